"""Why a mapping takes its time: hot links and their tasks, what a model weighs, what to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from toruscast._features import RoutedTraffic, features
from toruscast._features.reasons import Reasons, hottest_links
from toruscast._features.reasons import explain as reasons_of
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.problem import as_problem
from toruscast.mapping.task_mapping import Allocation
from toruscast.notebook import Result
from toruscast.routing.messages import mean_message
from toruscast.simulation.simulator import simulate_packets
from toruscast.text import seconds, shown_name
from toruscast.training.default_model import ROUNDS_APART, classify_traffic, load_default
from toruscast.validation import Routing, whole_number

from ._anneal_kernels import Uses
from .annealing import Annealer, Goal
from .moving import uses_of

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, ProblemLike, TorusLike

# Error of the simulated times.
_ERROR = 0.01
# Hot nodes that begin a block, and exchanges that are compared.
_HOT, _MAX_COMPARED = 12, 20_000
_GOAL = Goal(4, 1.0)


@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """Why a mapping takes its time, compared with another one; made by `explain`."""

    mapping: TaskMapping
    against: TaskMapping
    # Simulated seconds of both.
    time: float
    against_time: float
    # The hottest links, as in `Reasons`, and ``against``, the bytes there under the other mapping.
    table: pd.DataFrame
    # The task pairs that put most on each: ``link``, ``phase``, ``src``, ``dst``, ``nbytes`` there,
    # ``share`` of the link's bytes, ``hops``, and ``against``, those under the other mapping.
    pairs: pd.DataFrame
    # What the model weighs, the heaviest first: ``feature``, ``value``, that ``against``, and
    # ``effect``: how the forecast would change if this feature alone were the other mapping's.
    weights: pd.DataFrame
    # Exchanges of two blocks of nodes that lower the loads most: ``block``, ``other``, ``time``
    # (simulated seconds) and ``gain``, the share of the time that is saved.
    exchanges: pd.DataFrame
    reasons: Reasons
    problem: MappingProblem

    def __repr__(self) -> str:
        return (
            f"Explanation({shown_name(self.mapping.name)}: {seconds(self.time)}, "
            f"{shown_name(self.against.name)}: {seconds(self.against_time)}, "
            f"limited by {self.reasons.binding})"
        )


def explain(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mapping: MappingLike | None = None,
    against: MappingLike | None = None,
    *,
    routing: Routing = "deterministic",
    top: int = 5,
) -> Explanation:
    """Explain why a mapping takes its time, compared with another one.

    Parameters
    ----------
    against : TaskMapping, optional
        Another mapping; the tasks in order if not given.
    top : int
        Rows of each table; of the pairs, for each link.

    Examples
    --------
    >>> comm = CommGraph(4, [0, 0, 1], [1, 2, 3], [200_000, 100_000, 1000])
    >>> why = explain(comm, Torus((8,)), TaskMapping([0, 2, 3, 7], 8))
    >>> why.table["label"].tolist()[:2], why.pairs["src"].tolist()[:2]
    (['(0) +X', '(1) +X'], [0, 0])
    >>> why.time > why.against_time
    True
    """
    problem = as_problem(comm, torus, routing)
    mapping, n = problem.mapping(mapping), whole_number(top, "top", 1)
    if against is None:
        capacity = mapping.tasks_per_node
        against = Allocation(problem.torus, tasks_per_node=capacity).in_order(problem.n_tasks)
    both = mapping, problem.mapping(against)
    routed, other = (RoutedTraffic(problem, each) for each in both)
    links = hottest_links(routed, n)
    links["against"] = other.all_link_bytes[links.index]
    time, against_time = (_simulated_time(problem, each) for each in both)
    uses = uses_of(problem)
    return Explanation(
        mapping=mapping,
        against=both[1],
        time=time,
        against_time=against_time,
        table=links,
        pairs=_heaviest_pairs(problem, both, uses, links, n),
        weights=_feature_effects(problem, both).head(n),
        exchanges=_gaining_exchanges(problem, mapping, uses, time, n),
        reasons=reasons_of(problem, mapping, n=n),
        problem=problem,
    )


def _simulated_time(problem: MappingProblem, mapping: TaskMapping) -> float:
    return float(simulate_packets(problem, mapping, error=_ERROR).time)


def _heaviest_pairs(
    problem: MappingProblem,
    mappings: tuple[TaskMapping, TaskMapping],
    uses: Uses,
    links: pd.DataFrame,
    n: int,
) -> pd.DataFrame:
    """The task pairs that put most on each link."""
    torus, found = problem.torus, []
    for number, comm in enumerate(problem.workload):
        src, dst = (mappings[0].node[task] for task in (comm.src, comm.dst))
        pair = src.astype(np.int64) * torus.n_nodes + dst
        count = uses.first[pair + 1] - uses.first[pair]
        edge = np.repeat(np.arange(comm.n_edges), count)
        place = np.arange(edge.size) - np.repeat(np.cumsum(count) - count, count)
        place += uses.first[pair][edge]
        resource = uses.resource[place].astype(np.int64)
        part = uses.share[place] / uses.parts if uses.share.size else np.ones(place.size)
        chosen = np.isin(resource, links.index)
        edge, task_bytes = edge[chosen], (part * comm.nbytes[edge])[chosen]
        hops = [torus.distance(m.node[comm.src[edge]], m.node[comm.dst[edge]]) for m in mappings]
        found.append(
            pd.DataFrame(
                {
                    "link": resource[chosen],
                    "phase": number,
                    "src": comm.src[edge],
                    "dst": comm.dst[edge],
                    "nbytes": task_bytes,
                    "share": task_bytes / links["nbytes"].loc[resource[chosen]].to_numpy(),
                    "hops": hops[0],
                    "against": hops[1],
                }
            )
        )
    every = pd.concat(found, ignore_index=True)
    rank = pd.Series(np.arange(len(links)), index=links.index)
    order = np.lexsort((-every["nbytes"], rank.loc[every["link"]].to_numpy()))
    return every.iloc[order].groupby("link", sort=False).head(n).reset_index(drop=True)


def _feature_effects(
    problem: MappingProblem, mappings: tuple[TaskMapping, TaskMapping]
) -> pd.DataFrame:
    """What the forecast would change if one feature after the other were the other mapping's."""
    model = load_default()
    table = features(
        problem.workload,
        problem.torus,
        mappings,
        routing=problem.routing,
        features=model.required_columns,
        extra={ROUNDS_APART: attrgetter(ROUNDS_APART)},
    )
    own, other = table.to_dict("records")
    kinds, packets = classify_traffic(problem, mappings), problem.derive(mean_message)

    def forecast(row: dict[Any, float]) -> float:
        prior = model.prior_prediction(pd.DataFrame([row]), kinds, packets)
        return float(prior.times()[0])

    rows = pd.DataFrame(
        {
            "feature": name,
            "value": own[name],
            "against": other[name],
            "effect": forecast(own | {name: other[name]}) / forecast(own) - 1,
        }
        for name in table.columns
    )
    order = np.argsort(-rows["effect"].abs().to_numpy(), kind="stable")
    return rows.iloc[order].reset_index(drop=True)


def _gaining_exchanges(
    problem: MappingProblem, mapping: TaskMapping, uses: Uses, time: float, n: int
) -> pd.DataFrame:
    """The exchanges that lower the loads most, simulated."""
    rows = []
    for block, other, changed in _best_exchanges(problem, mapping, uses, n):
        try:
            after = _simulated_time(problem, changed)
        except InputError:
            continue
        rows.append({"block": block, "other": other, "time": after, "gain": 1 - after / time})
    table = pd.DataFrame(rows, columns=["block", "other", "time", "gain"])
    return table.sort_values("time", kind="stable", ignore_index=True)


def _best_exchanges(
    problem: MappingProblem, mapping: TaskMapping, uses: Uses, n: int
) -> list[tuple[tuple[int, ...], tuple[int, ...], TaskMapping]]:
    """Return the ``n`` exchanges of blocks that lower the loads most, and their mappings."""
    torus, capacity = problem.torus, mapping.tasks_per_node
    places = Allocation(torus, tasks_per_node=capacity).free_slots(problem.n_tasks)
    annealer = Annealer(problem, mapping, places, _GOAL, uses, seed=0)
    loads, before = annealer.loads, annealer.energy
    order = np.argsort(mapping.node, kind="stable")
    first = np.concatenate([[0], np.cumsum(mapping.occupancy)])
    found = []
    for block, other in _block_pairs(torus, mapping.node[annealer.hot_tasks()].tolist()):
        tasks, nodes = [], []
        for here, there in [*zip(block, other, strict=True), *zip(other, block, strict=True)]:
            some = order[first[here] : first[here + 1]]
            tasks.append(some)
            nodes.append(np.full(some.size, there))
        moved, to = np.concatenate(tasks), np.concatenate(nodes)
        if not moved.size:
            continue
        back = mapping.node[moved]
        loads.move(moved, to)
        energy = annealer.energy
        loads.move(moved, back)
        if energy < before:
            node = mapping.node.copy()
            node[moved] = to
            found.append((energy, block, other, node))
    found.sort(key=lambda each: each[0])
    chosen = {each[3].tobytes(): each for each in reversed(found)}
    return [
        (block, other, TaskMapping(node, torus, tasks_per_node=capacity))
        for _, block, other, node in sorted(chosen.values(), key=lambda each: each[0])[:n]
    ]


def _block_pairs(torus: Torus, hot: list[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield pairs of blocks, the first of which has a hot node."""
    ours = torus.usable_nodes.tolist()
    is_ours = np.isin(np.arange(torus.n_nodes), ours)
    begins = list(dict.fromkeys(hot))[:_HOT]
    left = _MAX_COMPARED
    for port in (None, *range(0, 2 * torus.ndim, 2)):
        for node in begins:
            for there in ours:
                block, other = [node], [there]
                if port is not None:
                    block.append(int(torus.neighbors[node, port]))
                    other.append(int(torus.neighbors[there, port]))
                both = [*block, *other]
                if min(both) < 0 or len(set(both)) < len(both) or not is_ours[both].all():
                    continue
                yield tuple(block), tuple(other)
                left -= 1
                if not left:
                    return
