"""Answer of `rank`: the mapping to use, its gain, its certainty and its limits."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property

from toruscast.decision import Ranking
from toruscast.decision.results import (
    SUMMED_PROFILE_FACTORS,
    NetworkEnsemble,
    Verdict,
    default_order,
    describe_proof_scope,
)
from toruscast.routing.bounds import min_time
from toruscast.text import counted, joined, percent, probability, seconds, shown_name
from toruscast.training.default_model import DefaultModel

from .blocks import Answer, Block, Chart, Section, Sentence
from .candidates import (
    CandidateRanking,
    certainty_badge,
    describe_certainty,
    describe_problem,
    describe_rivals,
)
from .learned import describe_runs, importance_chart, observed_chart, runs_content, scatter_chart
from .links import max_candidates
from .table import Column, Table, records

# The answer suggests a search above this relative gap to the lower bound over all mappings.
_WIDE_GAP = 0.05
# A mapping with a smaller relative gap is called optimal.
_NO_GAP = 0.005
# Words for the rules in `Network.unknown_rules`.
_RULE_NAMES = {
    "fifo_rule": "FIFOs",
    "feeding": "injection",
    "arbitration": "arbitration",
    "tie_break": "ties",
}
# Sources of times that were not confirmed by a simulation with real packets.
_PREDICTED = ("predicted", "coarse")
_NETWORK_ONLY = "Times are for the network only, without computation or other jobs."


def answer(result: Ranking, *, setting: str = "", top: int = 10) -> Answer:
    """Return the answer; a terminal shows the first ``top`` candidates."""
    return RankingBlocks(result).answer(setting, top)


class RankingBlocks:
    """The blocks of an answer about a ranking."""

    def __init__(self, result: Ranking) -> None:
        self.result, self.table = result, result.table
        names = [str(name) for name in self.table["mapping"]]
        # A check simulates all candidates, so use the simulated times.
        self.time = "observed_time" if result.unchecked else "time"
        times = self.table[self.time]
        # Exact times have no interval.
        is_exact = (self.table["source"] == "measured") | (result.unchecked is not None)
        low, high = (self.table[name].mask(is_exact, times) for name in ("low", "high"))
        is_predicted = self.table["source"].isin(_PREDICTED) & (result.unchecked is None)
        self.mappings = [result.named(name) for name in names]
        self.ranking = CandidateRanking(
            names,
            times.tolist(),
            yours=default_order(self.mappings, names, result.problem.torus),
            sources=list(map(self._source_text, self.table["source"])),
            intervals=[*zip(low, high, strict=True)],
            predicted={*self.table["mapping"][is_predicted]},
            proved=result.verdict.kind == "proved",
        )

    @cached_property
    def lower_bound(self) -> float:
        """Lower bound (s) on the time of any mapping; 0 if times include more than the network."""
        result = self.result
        if self.table["lower_bound"].isna().all() or result.fitted.target == "measured":
            return 0.0
        return min_time(result.problem, result.best.tasks_per_node)

    def answer(self, setting: str, top: int) -> Answer:
        """Return the whole answer."""
        result, ranking, first = self.result, self.ranking, self.table.iloc[0]
        is_measured = result.fitted.target == "measured"
        traffic = ranking.compare_traffic(result.problem, self.mappings, not is_measured)
        interval, (low, high) = "", ranking.intervals[0]
        if low < high and first["source"] != "simulated":
            interval = f"The {percent(result.coverage)} interval of its time is "
            interval += f"{seconds(low)} to {seconds(high)}."
        n_left_out = max(len(ranking.names) - max_candidates(result.problem.torus), 0)
        sections = [
            Section("How much faster", [self.times_chart()], wide=False, only="page"),
            *traffic.limit_sections(),
            *traffic.link_sections(n_left_out),
        ]
        if result.learned is not None:
            lines = [Sentence(line) for line in describe_runs(result.learned)]
            sections.append(Section("Model of the measured times", lines))
        if result.unchecked is not None:
            lines = [Sentence(line) for line in self._describe_check(result.unchecked)]
            sections.append(Section("Check", lines))
        if result.networks is None:
            sections.append(self._model_section())
        badge, about = "", describe_problem(result.problem)
        if result.cost.candidates > 1:
            p_best = float(first["p_best"])
            badge = certainty_badge(result.verdict, result.problem.workload, p_best)
        certainty, *details = describe_confidence(result)
        notes = [
            certainty,
            self._describe_optimality(),
            ranking.describe_similarity(),
            "" if is_measured else _NETWORK_ONLY,
        ]
        return traffic.answer(
            ranking.headline(),
            setting=setting or about,
            title=about,
            badge=badge,
            notes=list(filter(None, notes)),
            details=list(filter(None, [*details, interval])),
            table=self.candidate_table(top),
            sections=[*sections, traffic.traffic_section()],
            content=self._make_content(),
            file=traffic.launcher_file(),
        )

    def _source_text(self, source: str) -> str:
        """Return the source of a time as a word for the headline, or nothing if it is exact."""
        if source == "simulated" or self.result.unchecked is not None:
            return ""
        mean = f" on average over {self.result.cost.networks} networks"
        return {"measured": " measured", "averaged": mean}.get(source, " predicted")

    def _describe_optimality(self) -> str:
        """Return the gap between the best and the lower bound over all mappings."""
        if self.table["lower_bound"].isna().all():
            return (
                "Measured times are below the lower bounds of this network, so no bound is shown."
            )
        if self.result.fitted.target == "measured":
            return (
                "Measured times include more than the network, so the lower bound over all "
                "mappings is unknown. 'toruscast search' may find a faster one."
            )
        if not self.lower_bound:
            return ""
        gap = self.ranking.times[0] / self.lower_bound - 1
        text = f"No mapping can be faster than {seconds(self.lower_bound)}"
        if gap < _NO_GAP:
            scope = describe_proof_scope(self.result.problem.workload)
            # On networks without a proof, another mapping may be optimal.
            in_simulation = "" if self.result.verdict.kind == "proved" else " in simulation"
            return f"{text}, so this one is optimal{in_simulation}{scope}."
        longer = f"{percent(gap)} longer" if gap < 1 else f"{1 + gap:.1f} times as long"
        text = f"{text}; this one takes {longer}."
        return text if gap <= _WIDE_GAP else f"{text} 'toruscast search' may find a faster one."

    def times_chart(self) -> Chart:
        """Return a chart of the times of the five best, the default order and the slowest."""
        return self.ranking.chart(lower_bound=self.lower_bound, ticks=self.ranking.times)

    def candidate_table(self, top: int = 10) -> Table:
        """Return a table of the candidates, the fastest first."""
        table, ranking = self.table, self.ranking
        checked = self.result.unchecked is not None
        interval = f"{percent(self.result.coverage)} interval"
        columns = [
            Column("rank", "#", "count"),
            Column("mapping", kind="name"),
            Column(self.time, "time", "seconds", priority=0),
            *ranking.change_columns(self.time),
            Column("source", "source before" if checked else "source"),
            *([Column("time", "time before", "seconds")] if checked else []),
            Column("low", interval, "seconds", priority=4, to="high"),
            Column("p_best", "P(best)", "share"),
            Column("lower_bound", kind="seconds", priority=5),
            Column("max_bytes", "max link", "bytes", priority=6),
            Column("avg_hops_per_byte", "hops per byte", "number", priority=7),
            Column("max_FIFO", "max FIFO", "count", priority=8),
        ]
        is_exact = (table["low"] == table["high"]).all()
        return Table(
            table,
            [c for c in columns if c.name in table and not (c.to and is_exact)],
            f"All {counted(len(table), 'candidate')}",
            best=0,
            yours=ranking.yours,
            top=top,
            key="candidates",
        )

    def _model_section(self) -> Section:
        """Return a section on the model: its training, its features and its accuracy."""
        result, model = self.result, self.result.fitted
        if isinstance(model, DefaultModel):
            origin = model.provenance
            training = (
                "The default model orders mappings by their release bound. The excess over the "
                f"bound is fitted to {origin['samples']} samples of {origin['applications']} "
                "applications."
            )
        else:
            n_features = counted(len(model.feature_names_in_), "feature")
            training = f"The model was trained on {model.n_samples_} samples with {n_features}."
        blocks: list[Block] = [Sentence(training)]
        if result.verdict.rivals:
            rivals = joined(result.verdict.rivals, 10)
            blocks.append(Sentence(f"Candidates that may be the fastest: {rivals}."))
        if result.learned is not None:
            blocks.append(observed_chart(result.learned))
        elif not isinstance(model, DefaultModel):
            blocks.append(importance_chart(model))
        rows = self.table[self.table["source"] == "predicted"]
        if result.unchecked is not None and len(rows) > 1:
            title = "Predicted and simulated times"
            lead = f"{counted(len(rows), 'candidate')} simulated for the check only. RCC of all "
            lead += f"candidates: {result.scores['rcc']:.3f}."
            axes = ("simulated", rows["observed_time"]), ("predicted", rows["time"])
            blocks.append(scatter_chart("check", title, lead, *axes, rows["mapping"].tolist()))
        return Section("Model and its accuracy", blocks, folded=True)

    def _describe_check(self, before: Ranking) -> list[str]:
        """Return sentences that compare the ranking before the check with the simulated times."""
        result, scores = self.result, self.result.scores
        if "rcc" not in scores:
            return ["A single candidate has no order to score."]
        answer = shown_name(before.table["mapping"].iloc[0])
        lines = [
            f"Before the check the answer was {answer}. "
            f"{' '.join(describe_confidence(before))} The check simulated all {len(result.table)} "
            f"candidates, of which {result.cost.simulated} had been simulated before.",
            f"Prediction: RCC {scores['rcc']:.3f}, R^2 {scores['r2']:.3f}, tau-b "
            f"{scores['tau_b']:.3f}, regret@1 {percent(scores['regret_1'], 1)}. Lower bound alone: "
            f"RCC {scores['rcc_of_bound']:.3f}, R^2 {scores['r2_of_bound']:.3f}.",
        ]
        if "within_interval" in scores:
            lines.append(
                f"The {percent(result.coverage)} intervals contain "
                f"{percent(scores['within_interval'])} of the other times."
            )
        return lines

    def _make_content(self) -> dict[str, object]:
        """Return the JSON entries of the answer."""
        result = self.result
        best_and_last = self.table["mapping"].iloc[[0, -1]].unique()
        yours = self.ranking.yours
        return {
            "routing": result.problem.routing,
            "verdict": asdict(result.verdict),
            "before_check": result.unchecked
            and {"best": result.unchecked.best.name, **asdict(result.unchecked.verdict)},
            "goal": result.goal,
            # Only these numbers differ when a command is repeated.
            "spent": dict(result.spent) if result.goal == "order" else None,
            "default_order": None if yours is None else self.ranking.names[yours],
            "lower_bound_of_all_mappings": self.lower_bound or None,
            "cost": result.cost._asdict(),
            "learned": runs_content(result.learned),
            "networks": None
            if result.networks is None
            else {"weights": result.networks.weights, "spread": result.networks.spread},
            "coverage": result.coverage,
            "ranking": records(self.table),
            "reasons": {
                name: {
                    "bounds": reasons.bounds,
                    "binding": reasons.binding,
                    "hottest_links": records(reasons.links),
                }
                for name, reasons in ((name, result.reasons(name)) for name in best_and_last)
            },
            "quality": result.scores,
        }


def describe_confidence(result: Ranking) -> list[str]:
    """Return sentences: the certainty of the answer first, then its assumptions and its cost."""
    if result.cost.candidates < 2:
        return ["There is no other candidate."]
    if result.unchecked is not None:
        sentences = [_describe_certainty(result), _describe_sum(result)]
    elif result.networks is not None:
        sentences = _describe_networks(result, result.networks)
    elif result.fitted.target == "measured":
        sentences = _describe_measurements(result)
    else:
        sentences = [
            *_describe_simulations(result),
            _describe_order(result),
            _describe_release_bound(result),
            _describe_sum(result),
        ]
    return list(filter(None, sentences))


def _describe_simulations(result: Ranking) -> list[str]:
    """Return the certainty, and how many candidates were simulated."""
    verdict, cost, source = result.verdict, result.cost, result.table["source"]
    sentences = [_describe_certainty(result)]
    if verdict.kind == "undecided" and verdict.rivals:
        rivals = joined(verdict.rivals)
        sentences.append(f"Possibly faster: {rivals}. More --simulations may decide.")
    if cost.simulated:
        sentences.append(f"{cost.simulated} of {cost.candidates} candidates were simulated.")
    n_coarse, has_forecasts = int((source == "coarse").sum()), (source == "predicted").any()
    if cost.coarsening is not None and cost.coarsening > 1 and n_coarse:
        sentences.append(
            f"A coarse simulation, with packets {cost.coarsening} times as long, orders "
            f"{counted(n_coarse, 'candidate')}."
        )
    if cost.is_coarse:
        sentences.append("The model also uses a coarse simulation of every candidate.")
    if result.unseen_traffic and has_forecasts:
        kinds = " or ".join(result.unseen_traffic)
        limitation = "its intervals may be too narrow"
        if isinstance(result.fitted, DefaultModel):
            limitation = "intervals are the widest of its training set"
        sentences.append(f"The model was not trained on {kinds}, so {limitation}.")
    return sentences


def _describe_certainty(result: Ranking) -> str:
    """Return a sentence with the probability that the first candidate is the fastest."""
    verdict, cost, p_best = result.verdict, result.cost, result.table["p_best"]
    if verdict.kind == "proved":
        proof = verdict.in_words(result.problem.workload).capitalize()
        return f"{proof}{_describe_proved_networks(verdict)}: no other candidate is faster."
    if cost.simulated:
        return describe_certainty(verdict)
    first, likeliest = probability(p_best.iloc[0]), int(p_best.argmax())
    source = "Nothing was" if cost.coarsening is None else "Only coarse packets were"
    text = f"{source} simulated. The probability of being the fastest is {first}"
    if cost.coarsening is None and p_best.iloc[likeliest] > p_best.iloc[0]:
        name, highest = result.table["mapping"].iloc[likeliest], probability(p_best.max())
        text += f", and {highest} for {shown_name(name)}, whose predicted time is equal"
    return f"{text}."


def _describe_proved_networks(verdict: Verdict) -> str:
    if verdict.n_networks == 1:
        return ""
    scope = "each" if verdict.n_proved == verdict.n_networks else f"{verdict.n_proved}"
    return f" on {scope} of {verdict.n_networks} plausible networks"


def _describe_order(result: Ranking) -> str:
    """If the goal is the order, return sentences about its quality and its cost."""
    rcc = result.verdict.rcc
    if result.goal != "order" or rcc is None:
        return ""
    sources = {
        "bound": "features of the routes",
        "coarse": "longer packets",
        "full": "real packets",
    }
    spent = ", ".join(
        f"{seconds(result.spent[name])} for {source}"
        for name, source in sources.items()
        if name in result.spent
    )
    return f"An expected {percent(rcc)} of all pairs are in the right order. Time spent: {spent}."


def _describe_release_bound(result: Ranking) -> str:
    """Return a sentence if the release bound and the model put different candidates first."""
    order, first = result.physical, result.table.iloc[0]
    if order is None or first["source"] != "predicted" or order.first == first["mapping"]:
        return ""
    text = f"The release bound alone puts {shown_name(order.first)} first"
    if order.held_out is None:
        return f"{text}. The model has no held-out scores to compare the two."
    model, bound = order.held_out["model"], order.held_out["release_bound"]
    better = "the model" if model >= bound else "the bound"
    return (
        f"{text}. On held-out samples, the model orders {percent(model)} of pairs correctly, "
        f"and the bound orders {percent(bound)}. This favours {better}."
    )


def _describe_sum(result: Ranking) -> str:
    """Return a sentence about the error of the times, if the traffic is a summed profile."""
    if not result.problem.workload.summed:
        return ""
    low, high = SUMMED_PROFILE_FACTORS
    return (
        "The profile is summed over a run, so times assume that all messages start at once. "
        f"Programs with rounds take {low:.2g} to {high:.2g} times as long. 'toruscast trace' "
        "records the rounds."
    )


def _describe_networks(result: Ranking, networks: NetworkEnsemble) -> list[str]:
    """Return sentences about a ranking by mean times over networks with different rules."""
    cost, coarsening = result.cost, result.cost.coarsening or 1
    weights = "Measured times of a few candidates (--times) would show which networks are likely."
    if cost.measured:
        likely = max(networks.weights, key=lambda name: networks.weights[name])
        weights = (
            f"They are weighted by the times of {counted(cost.measured, 'mapping')}. The likeliest "
            f"is '{likely}' ({probability(networks.weights[likely])})."
        )
    packets = f"Simulated packets are {coarsening} times as long as real ones."
    verdict, proof = result.verdict, ""
    if verdict.kind == "proved":
        proof = _describe_certainty(result)
    elif verdict.n_proved:
        proof = f"It is proved in simulation{_describe_proved_networks(verdict)}."
    rules = joined([_RULE_NAMES[rule] for rule in result.problem.torus.network.unknown_rules])
    certainty = describe_certainty(verdict)
    return [
        f"{proof} A machine may differ. {certainty}" if proof else certainty,
        describe_rivals(verdict),
        f"The network's rules for {rules} are unknown, so times are means over {cost.networks} "
        f"networks, between which the times of a mapping differ by {percent(networks.spread)}.",
        weights,
        packets if coarsening > 1 else "",
        _describe_order(result),
        "" if cost.measured else _describe_sum(result),
    ]


def _describe_measurements(result: Ranking) -> list[str]:
    """Return sentences about the certainty of a ranking that uses a model of measured times."""
    verdict, cost = result.verdict, result.cost
    noisy = result.learned is not None and result.learned.runs.noise > 0
    more = verdict.kind == "undecided" and cost.measured
    return [
        describe_certainty(verdict),
        describe_rivals(verdict, " at this noise" if noisy else ""),
        "More runs of these mappings may decide." if more else "",
        "The model uses a simulation of every candidate." if cost.is_coarse else "",
    ]
