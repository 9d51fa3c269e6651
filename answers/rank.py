"""The answer of `rank`: which mapping to use, how much that gains, how sure it is, and why."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from toruscast.decision import Ranking
from toruscast.decision.results import (
    SUMMED_PROFILE_FACTORS,
    NetworkEnsemble,
    default_order,
    describe_proof_scope,
)
from toruscast.routing.bounds import min_time
from toruscast.text import (
    counted,
    joined,
    percent,
    probability,
    seconds,
    shown_name,
)
from toruscast.training.default_model import DefaultModel
from toruscast.training.fitted import Model

from . import svg
from .blocks import Answer, Block, Chart, Section, Sentence
from .candidates import CandidateRanking, badge, how_sure, indistinguishable, setting_of
from .learned import learned_content, learned_lines, observed_chart, times_against
from .links import max_candidates
from .table import Column, Table, records

# Share above the lower bound over all mappings from which a search is worth its time.
_FAR = 0.05
# A time so near to that bound is at it.
_AT_FLOOR = 0.005
_NETWORK_ONLY = "Times are of the network alone: computation and other jobs are not in them."


def answer(found: Ranking, *, setting: str = "", top: int = 10) -> Answer:
    """Return what a forecast says."""
    return _RankingAnswer(found).answer(setting, top)


def candidates(found: Ranking) -> Table:
    """Return the candidates, the fastest first."""
    return _RankingAnswer(found).candidates()


def times_chart(found: Ranking) -> Chart:
    """Return the five best, the default order and the slowest as a chart."""
    return _RankingAnswer(found).times()


class _RankingAnswer:
    """A forecast on its way to blocks."""

    def __init__(self, found: Ranking) -> None:
        self.found, self.table = found, found.table
        names = [str(name) for name in self.table["mapping"]]
        # Where a check simulated all, its times count.
        self.time = "observed_time" if found.unchecked else "time"
        times = self.table[self.time]
        exact = (self.table["source"] == "measured") | (found.unchecked is not None)
        ends = (self.table[end].mask(exact, times) for end in ("low", "high"))
        self.mappings = [found.named(name) for name in names]
        self.ranking = CandidateRanking(
            names,
            times.tolist(),
            default_order(self.mappings, names, found.problem.torus),
            sources=list(map(self._source, self.table["source"])),
            ends=[*zip(*ends, strict=True)],
            proved=found.verdict.kind == "proved",
        )

    @cached_property
    def floor(self) -> float:
        """Seconds that no mapping can beat; 0 where times hold more than the network."""
        found = self.found
        if self.table["lower_bound"].isna().all() or found.fitted.target == "measured":
            return 0.0
        return min_time(found.problem, found.best.tasks_per_node)

    def answer(self, setting: str, top: int) -> Answer:
        """Return it."""
        found, ranking, first = self.found, self.ranking, self.table.iloc[0]
        view = ranking.view(found.problem, self.mappings)
        interval, low, high = "", *ranking.ends[0]
        if low < high and first["source"] != "simulated":
            ends = f"{seconds(low)} to {seconds(high)}"
            interval = f"The {percent(found.coverage)} interval of its time is {ends}."
        n = len(ranking.names)
        sections = [
            Section("How much faster", [self.times()], wide=False, only="page"),
            *view.why(),
            *view.where(n - min(n, max_candidates(found.problem.torus))),
        ]
        if found.learned is not None:
            lines = [Sentence(each) for each in learned_lines(found.learned)]
            sections.append(Section("What the runs taught", lines))
        if found.unchecked is not None:
            sections.append(Section("The check", [Sentence(self._check(found.unchecked))]))
        if found.networks is None:
            sections.append(self._model())
        about = setting_of(found.problem)
        said = [trust(found), interval, self._distance(), ranking.alike()]
        if found.fitted.target != "measured":
            said.append(_NETWORK_ONLY)
        return view.answer(
            ranking.headline(),
            setting=setting or about,
            title=about,
            badge=self._badge(),
            notes=list(filter(None, said)),
            table=self.candidates(top),
            sections=[*sections, view.traffic()],
            content=self._content(),
            file=view.launcher_file(),
        )

    def _source(self, how: str) -> str:
        """Return where a time is from, behind it in the headline."""
        if how == "simulated" or self.found.unchecked is not None:
            return ""
        mean = f" in the mean of {self.found.cost.networks} networks"
        return {"measured": " measured", "averaged": mean}.get(how, " predicted")

    def _badge(self) -> str:
        """Return how sure the answer is, in a word or three."""
        if self.found.cost.candidates < 2:
            return ""
        chance = float(self.table["p_best"].iloc[0])
        return badge(self.found.verdict, self.found.problem.workload, chance)

    def _distance(self) -> str:
        """Return how far the best is from the lower bound over all mappings."""
        if self.table["lower_bound"].isna().all():
            return (
                "No lower bound is shown: times of the machine lie below that of the network as it "
                "is given."
            )
        if self.found.fitted.target == "measured":
            return (
                "Times of the machine hold more than the network, so how far they are from the "
                "least of all mappings is unknown: 'toruscast search' may find a faster one."
            )
        if not self.floor:
            return ""
        above, least = self.ranking.times[0] / self.floor - 1, seconds(self.floor)
        if above < _AT_FLOOR:
            scope = describe_proof_scope(self.found.problem.workload)
            return f"No mapping can be faster ({least}): remapping has no more to give{scope}."
        far = f"{percent(above)} longer" if above < 1 else f"{1 + above:.1f} times as long"
        text = f"No mapping can be faster than {least}; this one takes {far}"
        if above <= _FAR:
            return f"{text}: remapping can give no more than that."
        return f"{text}: 'toruscast search' may find a faster one."

    def times(self) -> Chart:
        """Return the five best, the default order and the slowest as a chart."""
        return self.ranking.chart(floor=self.floor, every=self.ranking.times)

    def candidates(self, top: int = 10) -> Table:
        """Return the candidates, the fastest first."""
        table, ranking = self.table, self.ranking
        checked = self.found.unchecked is not None
        columns = [
            Column("rank", "#", "count"),
            Column("mapping", kind="name"),
            Column(self.time, "time", "seconds", priority=0),
            *ranking.changes(self.time),
            Column("source", "source before" if checked else "source"),
            *([Column("time", "time before", "seconds")] if checked else []),
            Column("low", f"{percent(self.found.coverage)} interval", "seconds", to="high"),
            Column("p_best", "P(best)", "share"),
            Column("lower_bound", kind="seconds", priority=2),
            Column("max_bytes", "max link", "bytes", priority=3),
            Column("avg_hops_per_byte", "hops per byte", "number", priority=4),
            Column("max_FIFO", "max FIFO", "count", priority=5),
        ]
        is_exact = (table["low"] == table["high"]).all()
        return Table(
            table,
            [c for c in columns if c.name in table and not (c.to and is_exact)],
            f"All {counted(len(table), 'candidate')}, the fastest first",
            best=0,
            yours=ranking.yours,
            top=top,
            key="candidates",
        )

    def _model(self) -> Section:
        """Return how sure the forecast is, and what it assumes."""
        found = self.found
        model = found.fitted
        blocks: list[Block] = [Sentence(_about(model))]
        if found.verdict.rivals:
            named = joined(found.verdict.rivals, 10)
            blocks.append(Sentence(f"Candidates that may still be the fastest: {named}."))
        if found.learned is not None:
            blocks.append(observed_chart(found.learned))
        elif not isinstance(model, DefaultModel):
            shares = model.feature_importances_
            order = np.argsort(-shares, kind="stable")[:12].tolist()
            series = [("importance", "best", [float(shares[i]) for i in order])]
            labels = [str(model.feature_names_in_[i]) for i in order]
            blocks.append(
                Chart(
                    "importance",
                    "What the forecast rests on",
                    "Importance of the features in the trees of the model.",
                    lambda: svg.bars(labels, series, 1.0, "%"),
                )
            )
        rows = self.table[self.table["source"] == "predicted"]
        if found.unchecked is not None and len(rows) > 1:
            blocks.append(
                times_against(
                    "check",
                    "Forecast against simulated times",
                    f"{counted(len(rows), 'candidate')} that only the check simulated; RCC over "
                    f"all {found.scores['rcc']:.3f}.",
                    ("simulated", rows["observed_time"]),
                    ("predicted", rows["time"]),
                    rows["mapping"].tolist(),
                )
            )
        return Section("How sure, and what the model assumes", blocks, folded=True)

    def _check(self, before: Ranking) -> str:
        """Return the answer before the check, and how good it was."""
        found = self.found
        scores = found.scores
        if "rcc" not in scores:
            return "One candidate: there is no order to score."
        parts = ", ".join(
            [
                f"RCC {scores['rcc']:.3f}",
                f"tau-b {scores['tau_b']:.3f}",
                f"R^2 {scores['r2']:.3f}",
                f"regret@1 {percent(scores['regret_1'], 1)}",
            ]
        )
        answer = shown_name(before.table["mapping"].iloc[0])
        text = (
            f"Before the check the answer was {answer}. {trust(before)} All {len(found.table)} "
            f"candidates were simulated to check it; the {found.cost.simulated} simulated before "
            f"count with their times: {parts}."
        )
        if "within_interval" in scores:
            text += (
                f" The {percent(found.coverage)} intervals hold "
                f"{percent(scores['within_interval'])} of the times that were only forecast."
            )
        return f"{text} The lower bound alone orders with an RCC of {scores['rcc_of_bound']:.3f}."

    def _content(self) -> dict[str, object]:
        """Return all of it for programs."""
        found = self.found
        ends = self.table["mapping"].iloc[[0, -1]].unique()
        return {
            "routing": found.problem.routing,
            "verdict": {
                "kind": found.verdict.kind,
                "certainty": found.verdict.certainty,
                "rivals": list(found.verdict.rivals),
                "rcc": found.verdict.rcc,
            },
            "before_check": found.unchecked
            and {
                "best": found.unchecked.best.name,
                "kind": found.unchecked.verdict.kind,
                "certainty": found.unchecked.verdict.certainty,
            },
            "goal": found.goal,
            # Seconds differ from run to run, the rest does not.
            "spent": dict(found.spent) if found.goal == "order" else None,
            "default_order": None
            if self.ranking.yours is None
            else self.ranking.names[self.ranking.yours],
            "least_of_all_mappings": self.floor or None,
            "cost": found.cost._asdict(),
            "learned": learned_content(found.learned),
            "networks": None
            if found.networks is None
            else {"weights": found.networks.weights, "spread": found.networks.spread},
            "coverage": found.coverage,
            "ranking": records(self.table),
            "reasons": {
                name: {
                    "bounds": why.bounds,
                    "binding": why.binding,
                    "hottest_links": records(why.links),
                }
                for name, why in ((name, found.reasons(name)) for name in ends)
            },
            "quality": found.scores,
        }


def _about(model: Model) -> str:
    """What the model learned from."""
    if isinstance(model, DefaultModel):
        origin = model.provenance
        return (
            "The default model orders mappings by their release bound. It learned how much longer "
            f"times are from {origin['samples']} samples of {origin['applications']} applications."
        )
    n_features = counted(len(model.feature_names_in_), "feature")
    return (
        f"The model learned from {model.n_samples_} samples and reads {n_features} of each mapping."
    )


def trust(found: Ranking) -> str:
    """Return how sure the answer is, what is left open, and what it cost."""
    if found.cost.candidates < 2:
        return "There is no other candidate."
    if found.unchecked is not None:
        said = [_certainty(found), _of_a_sum(found)]
    elif found.networks is not None:
        said = _network_lines(found, found.networks)
    elif found.fitted.target == "measured":
        said = _machine_lines(found)
    else:
        said = [*_simulation_lines(found), _ordered(found), _physical(found), _of_a_sum(found)]
    return " ".join(filter(None, said))


def _simulation_lines(found: Ranking) -> list[str]:
    """How sure an answer is that rests on simulations, and what they were."""
    verdict, cost, how = found.verdict, found.cost, found.table["source"]
    said = [_certainty(found)]
    if verdict.kind == "undecided" and verdict.rivals:
        may = joined(verdict.rivals)
        said.append(f"These may still be faster: {may}; more --simulations may decide.")
    if cost.simulated:
        n = counted(cost.simulated, "simulation")
        said.append(f"That took {n} of {cost.candidates} candidates.")
    n_coarse, has_forecasts = int((how == "coarse").sum()), (how == "predicted").any()
    if cost.coarsening is not None and cost.coarsening > 1 and n_coarse:
        who = "The others are" if cost.simulated else "They are"
        if has_forecasts:
            who = f"{counted(n_coarse, 'candidate')} {'is' if n_coarse == 1 else 'are'}"
        said.append(f"{who} ordered by a simulation with packets {cost.coarsening} times as long.")
    if cost.is_coarse:
        said.append("The model also read a coarser simulation of every candidate.")
    if found.unseen_traffic and has_forecasts:
        kinds = " and no ".join(found.unseen_traffic)
        what = "its intervals do not hold there"
        if isinstance(found.fitted, DefaultModel):
            what = "forecast intervals are those of the traffic on which it is off furthest"
        said.append(f"The model never saw {kinds}: {what}.")
    return said


def _certainty(found: Ranking) -> str:
    """How sure it is that no other candidate is faster."""
    verdict, cost, chances = found.verdict, found.cost, found.table["p_best"]
    if verdict.kind == "proved":
        proved = verdict.in_words(found.problem.workload).capitalize()
        return f"{proved}: every other candidate takes at least as long."
    if cost.simulated:
        return how_sure(verdict)
    chance, likeliest = probability(chances.iloc[0]), int(chances.argmax())
    if cost.coarsening is not None:
        return (
            f"Only longer packets were simulated: its probability of being the fastest is {chance}."
        )
    if chances.iloc[likeliest] > chances.iloc[0]:
        name, more = found.table["mapping"].iloc[likeliest], probability(chances.iloc[likeliest])
        return (
            "Nothing was simulated, and the forecasts tie: the probability of being the fastest is "
            f"{chance}, that of {shown_name(name)} {more}."
        )
    return f"Nothing was simulated: its probability of being the fastest is {chance}."


def _ordered(found: Ranking) -> str:
    """How good the order is, and what went into it, where it was asked for."""
    rcc = found.verdict.rcc
    if found.goal != "order" or rcc is None:
        return ""
    sources = {
        "bound": "features of the routes",
        "coarse": "longer packets",
        "full": "real packets",
    }
    spent = ", ".join(
        f"{seconds(found.spent[name])} for {what}"
        for name, what in sources.items()
        if name in found.spent
    )
    return f"{percent(rcc)} of all pairs are expected in the right order. That took {spent}."


def _physical(found: Ranking) -> str:
    """Where the release bound puts another candidate first than a model does that was trained."""
    order, first = found.physical, found.table.iloc[0]
    if order is None or first["source"] != "predicted" or order.first == first["mapping"]:
        return ""
    text = f"The release bound alone puts {shown_name(order.first)} first"
    if order.held_out is None:
        return f"{text}; the model does not tell which of them orders samples held out better."
    model, bound = order.held_out["model"], order.held_out["release_bound"]
    better = "the model" if model >= bound else "the bound"
    return (
        f"{text}; of pairs of samples held out the model orders {percent(model)} right, the bound "
        f"{percent(bound)}: they favour {better}."
    )


def _of_a_sum(found: Ranking) -> str:
    """What a profile hides, if the traffic is one."""
    if not found.problem.workload.summed:
        return ""
    low, high = SUMMED_PROFILE_FACTORS
    return (
        "Times hold if all messages start at once: a profile sums them. Programs with rounds take "
        f"{low:.2g} to {high:.2g} times as long; 'toruscast trace' records the rounds of this one."
    )


def _network_lines(found: Ranking, networks: NetworkEnsemble) -> list[str]:
    """How sure an answer is for a machine of unknown rules."""
    cost, coarsening = found.cost, found.cost.coarsening or 1
    tell = "Measured times of a few candidates (--times) tell more."
    if cost.measured:
        likely = max(networks.weights, key=lambda name: networks.weights[name])
        tell = (
            f"Times of {counted(cost.measured, 'mapping')} weigh them; the likeliest is "
            f"'{likely}', {probability(networks.weights[likely])}."
        )
    packets = f"Simulated packets are {coarsening} times as long as real ones."
    return [
        how_sure(found.verdict),
        indistinguishable(found.verdict),
        "Which FIFO a message takes, how a node feeds them and which packet goes first are not "
        f"known: times are means over {cost.networks} networks, which differ by "
        f"{percent(networks.spread)} about a mapping.",
        tell,
        packets if coarsening > 1 else "",
        _ordered(found),
        "" if cost.measured else _of_a_sum(found),
    ]


def _machine_lines(found: Ranking) -> list[str]:
    """How sure an answer is that rests on times of a machine."""
    verdict, cost = found.verdict, found.cost
    noisy = found.learned is not None and found.learned.runs.noise > 0
    more = verdict.kind == "undecided" and cost.measured
    return [
        how_sure(verdict),
        indistinguishable(verdict, " at this noise" if noisy else ""),
        "More runs of these decide." if more else "",
        "The model reads a simulation of every candidate." if cost.is_coarse else "",
    ]
