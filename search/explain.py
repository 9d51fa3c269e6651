"""Explanation of a mapping's time: hot links and their tasks, feature effects, and exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from toruscast._features import RoutedTraffic, features
from toruscast._features.reasons import Reasons, hottest_links
from toruscast._features.reasons import explain as explain_bounds
from toruscast._slow import pandas as pd
from toruscast.decision.simulations import simulate_mean
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.problem import as_problem
from toruscast.mapping.task_mapping import Allocation
from toruscast.notebook import Result
from toruscast.routing.messages import mean_message_packets
from toruscast.text import seconds, shown_name
from toruscast.training.default_model import ROUNDS_APART, classify_traffic, load_default
from toruscast.validation import Routing, whole_number

from ._anneal_kernels import ResourceTable
from .annealing import Annealer, Goal
from .resource_loads import build_resource_table

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, ProblemLike, TorusLike

# Accepted error of simulated times.
_SIMULATION_ERROR = 0.01
# Maximum number of hot nodes at which blocks begin, and of exchanges that are compared.
_MAX_HOT_NODES, _MAX_EXCHANGES = 12, 20_000
# Exchanges are compared by the energy with these weights, which are a search's first.
_GOAL = Goal(doublings=4, hop_share=1.0)


@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """Explanation of a mapping's time, compared with another mapping's; made by `explain`."""

    mapping: TaskMapping
    against: TaskMapping
    # Simulated seconds of ``mapping`` and of ``against``.
    time: float
    against_time: float
    # The hottest links, as in `Reasons`; ``against`` is their bytes under the other mapping.
    table: pd.DataFrame
    # Task pairs with the most bytes on each link: ``link``, ``phase``, ``src``, ``dst``,
    # ``nbytes``, ``share`` of the link's bytes, ``hops``, and ``against``, the other mapping's
    # hops.
    pairs: pd.DataFrame
    # Features of the model, the largest effect first: ``feature``, ``value``, ``against`` (value of
    # the other mapping), and ``effect``, the forecast's relative change with the other value.
    weights: pd.DataFrame
    # Exchanges of two blocks of nodes that reduce the loads most: ``block``, ``other``, ``time``
    # (simulated seconds) and ``gain`` (share of the time that is saved).
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
    """Explain the time of a mapping, compared with another one.

    Parameters
    ----------
    against : TaskMapping, optional
        The mapping to compare with; tasks in order by default.
    top : int
        Maximum rows of each table; the table of pairs has up to this many rows for each link.

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
    links = hottest_links(RoutedTraffic(problem, mapping), n)
    links["against"] = RoutedTraffic(problem, both[1]).all_link_bytes[links.index]
    time, against_time = (simulate_mean(problem, each, _SIMULATION_ERROR)[0] for each in both)
    table = build_resource_table(problem)
    return Explanation(
        mapping=mapping,
        against=both[1],
        time=time,
        against_time=against_time,
        table=links,
        pairs=_heaviest_pairs(problem, both, table, links, n),
        weights=_feature_effects(problem, both).head(n),
        exchanges=_simulate_exchanges(problem, mapping, table, time, n),
        reasons=explain_bounds(problem, mapping, n=n),
        problem=problem,
    )


def _heaviest_pairs(
    problem: MappingProblem,
    mappings: tuple[TaskMapping, TaskMapping],
    table: ResourceTable,
    links: pd.DataFrame,
    n: int,
) -> pd.DataFrame:
    """Return the ``n`` task pairs with the most bytes on each link, as in `Explanation.pairs`.

    ``mappings`` are the explained mapping and the mapping that it is compared with.
    """
    torus, tables = problem.torus, []
    for phase, comm in enumerate(problem.workload):
        src, dst = mappings[0].node[comm.src], mappings[0].node[comm.dst]
        pair = src.astype(np.int64) * torus.n_nodes + dst
        # List the table entries of every edge's route, one edge after the other.
        count = table.first[pair + 1] - table.first[pair]
        edge = np.repeat(np.arange(comm.n_edges), count)
        index = np.arange(edge.size) - np.repeat(np.cumsum(count) - count, count)
        index += table.first[pair][edge]
        resource = table.resource[index].astype(np.int64)
        share = table.share[index] / table.parts if table.share.size else np.ones(index.size)
        is_selected = np.isin(resource, links.index)
        edge, task_bytes = edge[is_selected], (share * comm.nbytes[edge])[is_selected]
        hops = [torus.distance(m.node[comm.src[edge]], m.node[comm.dst[edge]]) for m in mappings]
        tables.append(
            pd.DataFrame(
                {
                    "link": resource[is_selected],
                    "phase": phase,
                    "src": comm.src[edge],
                    "dst": comm.dst[edge],
                    "nbytes": task_bytes,
                    "share": task_bytes / links["nbytes"].loc[resource[is_selected]].to_numpy(),
                    "hops": hops[0],
                    "against": hops[1],
                }
            )
        )
    pairs = pd.concat(tables, ignore_index=True)
    rank = pd.Series(np.arange(len(links)), index=links.index)
    order = np.lexsort((-pairs["nbytes"], rank.loc[pairs["link"]].to_numpy()))
    return pairs.iloc[order].groupby("link", sort=False).head(n).reset_index(drop=True)


def _feature_effects(
    problem: MappingProblem, mappings: tuple[TaskMapping, TaskMapping]
) -> pd.DataFrame:
    """Return the table of `Explanation.weights`: the effect of each feature on the forecast.

    The effect is the forecast's relative change if only this feature takes the other value.
    """
    model = load_default()
    table = features(
        problem.workload,
        problem.torus,
        mappings,
        routing=problem.routing,
        features=model.required_columns,
        extra={ROUNDS_APART: attrgetter(ROUNDS_APART)},
    )
    values, other = table.to_dict("records")
    kinds, packets = classify_traffic(problem, mappings), problem.derive(mean_message_packets)

    def forecast(row: dict[Any, float]) -> float:
        prior = model.prior_prediction(pd.DataFrame([row]), kinds, packets)
        return float(prior.times()[0])

    rows = pd.DataFrame(
        {
            "feature": name,
            "value": values[name],
            "against": other[name],
            "effect": forecast(values | {name: other[name]}) / forecast(values) - 1,
        }
        for name in table.columns
    )
    order = np.argsort(-rows["effect"].abs().to_numpy(), kind="stable")
    return rows.iloc[order].reset_index(drop=True)


def _simulate_exchanges(
    problem: MappingProblem, mapping: TaskMapping, table: ResourceTable, time: float, n: int
) -> pd.DataFrame:
    """Simulate the most promising exchanges; return the table of `Explanation.exchanges`."""
    rows = []
    for block, other, changed in _best_exchanges(problem, mapping, table, n):
        try:
            after, _ = simulate_mean(problem, changed, _SIMULATION_ERROR)
        except InputError:
            continue
        rows.append({"block": block, "other": other, "time": after, "gain": 1 - after / time})
    exchanges = pd.DataFrame(rows, columns=["block", "other", "time", "gain"])
    return exchanges.sort_values("time", kind="stable", ignore_index=True)


def _best_exchanges(
    problem: MappingProblem, mapping: TaskMapping, table: ResourceTable, n: int
) -> list[tuple[tuple[int, ...], tuple[int, ...], TaskMapping]]:
    """Return the ``n`` exchanges of two node blocks that most reduce the energy of the loads.

    Each exchange lists both blocks and the resulting mapping. The first block has a hot task.
    """
    torus, capacity = problem.torus, mapping.tasks_per_node
    slots = Allocation(torus, tasks_per_node=capacity).free_slots(problem.n_tasks)
    annealer = Annealer(problem, mapping, slots, _GOAL, table, seed=0)
    loads, initial_energy = annealer.loads, annealer.energy
    order = np.argsort(mapping.node, kind="stable")
    first = np.concatenate([[0], np.cumsum(mapping.occupancy)])
    exchanges = []
    pairs = _block_pairs(torus, mapping.node[annealer.hot_tasks()].tolist())
    for block, other in islice(pairs, _MAX_EXCHANGES):
        tasks, nodes = [], []
        for here, there in [*zip(block, other, strict=True), *zip(other, block, strict=True)]:
            moved_tasks = order[first[here] : first[here + 1]]
            tasks.append(moved_tasks)
            nodes.append(np.full(moved_tasks.size, there))
        moved, new_nodes = np.concatenate(tasks), np.concatenate(nodes)
        if not moved.size:
            continue
        old_nodes = mapping.node[moved]
        loads.move(moved, new_nodes)
        energy = annealer.energy
        loads.move(moved, old_nodes)
        if energy < initial_energy:
            node = mapping.node.copy()
            node[moved] = new_nodes
            exchanges.append((energy, block, other, node))
    exchanges.sort(key=lambda exchange: exchange[0])
    # Exchanges can result in the same mapping; keep the one with the lowest energy.
    chosen = {exchange[3].tobytes(): exchange for exchange in reversed(exchanges)}
    best = sorted(chosen.values(), key=lambda exchange: exchange[0])[:n]
    return [
        (block, other, TaskMapping(node, torus, tasks_per_node=capacity))
        for _, block, other, node in best
    ]


def _block_pairs(torus: Torus, hot: list[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield pairs of blocks of one or two nodes; the first block begins at a hot node."""
    nodes = torus.usable_nodes.tolist()
    is_usable = np.isin(np.arange(torus.n_nodes), nodes)
    hot_nodes = list(dict.fromkeys(hot))[:_MAX_HOT_NODES]
    for port in (None, *range(0, 2 * torus.ndim, 2)):
        for node in hot_nodes:
            for other_node in nodes:
                block, other = [node], [other_node]
                if port is not None:
                    block.append(int(torus.neighbors[node, port]))
                    other.append(int(torus.neighbors[other_node, port]))
                all_nodes = [*block, *other]
                is_distinct = min(all_nodes) >= 0 and len(set(all_nodes)) == len(all_nodes)
                if is_distinct and is_usable[all_nodes].all():
                    yield tuple(block), tuple(other)
