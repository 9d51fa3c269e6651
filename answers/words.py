"""Sentences about answers: what bounds a time, what is fastest, how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.wording import counted, shown_name

from .units import percent, seconds

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.features.reasons import Reasons
    from toruscast.training import Forecast
    from toruscast.training.forecast.answer import Networks

# By how much all candidates differ at most where none is worth choosing.
_ALIKE = 0.01
# Rivals that are named.
_NAMED = 4
BINDING = {
    "link": "the busiest link",
    "injection": "the busiest injection FIFO",
    "reception": "the busiest receiving node",
    "latency": "software overhead, hops and the longest message",
}
_CHAIN = "the longest chain of messages that wait for each other"


def bound_line(why: Reasons, estimated: bool, dependent: bool = False) -> str:
    """Return what bounds the time of a mapping, in words; or by estimate, where ways are open.

    In ``dependent`` rounds messages wait for each other.
    """
    others = ", ".join(f"{k} {seconds(v)}" for k, v in why.bounds.items() if k != why.binding)
    least = seconds(why.bounds[why.binding])
    what = _CHAIN if dependent and why.binding == "latency" else BINDING[why.binding]
    if estimated:
        return f"Limited by {what}, an estimate of {least} ({others})."
    return f"Bound by {what}, {least} at least ({others})."


def link_note(label: str) -> str:
    """Return what the name of a link means, on an example."""
    node, _, way = label.partition(" ")
    sign = "plus" if way.startswith("+") else "minus"
    return f"{label}: the link that leaves node {node} in {sign} direction of dimension {way[1:]}."


def gains(names: pd.Series[str], times: pd.Series[float]) -> str:
    """Return how much less time the first takes than what it may be compared with."""
    text = ""
    others = names.iloc[1:]
    identity = times.iloc[1:][others == "identity"]
    for label, reference in (
        ("the identity mapping", float(identity.iloc[0]) if len(identity) else None),
        ("the median candidate", float(times.median()) if len(others) else None),
    ):
        if reference:
            text += f", {percent(1 - times.iloc[0] / reference)} less time than {label}"
    return text


def alike(times: pd.Series[float]) -> str:
    """Return that the mapping hardly matters, where it does not."""
    least, most = float(times.min()), float(times.max())
    if len(times) < 2 or most >= (1 + _ALIKE) * least > 0:
        return ""
    within = "take the same time" if most == least else f"lie within {percent(_ALIKE)} of it"
    return f" All candidates {within}: the mapping hardly matters here."


def answer(found: Forecast) -> str:
    """Return which candidate is fastest and by how much."""
    table = found.table
    best = table.iloc[0]
    name = shown_name(best["mapping"])
    if best["how"] in ("simulated", "measured"):
        text = f"{name} is fastest: {seconds(best['time'])}, {best['how']}"
    else:
        text = (
            f"{name} is forecast to be fastest: {seconds(best['time'])} "
            f"({percent(found.coverage)} interval {seconds(best['low'])} to "
            f"{seconds(best['high'])})"
        )
    return f"{text}{gains(table['mapping'], table['time'])}.{alike(table['time'])}"


def trust(found: Forecast) -> str:
    """Return how sure the answer is, what is left open, and what it cost."""
    verdict, cost = found.verdict, found.cost
    n_others = cost.candidates - 1
    if not n_others:
        return "There is no other candidate."
    if found.networks is not None:
        return _trust_networks(found, found.networks)
    if found.fitted.target == "measured":
        return _trust_machine(found)
    if verdict.kind == "proved":
        text = "Proved: the lower bound or the simulated time of every other candidate is no less."
    elif cost.to_answer:
        sure = "Sure" if verdict.kind == "sure" else "Not sure"
        text = (
            f"{sure}: with a probability of {percent(verdict.certainty)} no other candidate takes "
            "less by more than 1 %."
        )
    else:
        chance = percent(found.table["p_best"].iloc[0])
        text = f"Nothing was simulated: its probability of being the fastest is {chance}."
        likeliest = found.table.iloc[int(found.table["p_best"].argmax())]
        if likeliest["p_best"] > found.table["p_best"].iloc[0]:
            name, more = shown_name(likeliest["mapping"]), percent(likeliest["p_best"])
            text = f"{text[:-1]}, that of {name}, which varies more, {more}."
    if verdict.kind == "open" and verdict.rivals:
        text += f" It cannot be told apart from {_rivals(found)}: a larger budget may decide."
    if cost.to_answer:
        text += (
            f" That took {counted(cost.to_answer, 'simulation')} of {cost.candidates} candidates"
        )
        rest = cost.simulated - cost.to_answer
        why = "were cheap and give the order" if cost.coarsening == 1 else "followed"
        text += f"; {rest} more {why}." if rest else "."
    if cost.coarsening is not None and cost.coarsening > 1:
        text += (
            f" The others are ordered by a simulation with packets {cost.coarsening} times as long."
        )
    if cost.sketched:
        text += " The model also read a coarser simulation of every candidate."
    if found.unlearned and (found.table["how"] == "forecast").any():
        text += (
            f" The model learned from no {' and no '.join(found.unlearned)}: forecast intervals "
            "are as wide as those of such applications that it never saw."
            if found.fitted.provenance_.get("default")
            else f" The model learned from no {' and no '.join(found.unlearned)}: its intervals "
            "do not hold there."
        )
    return text


def _trust_networks(found: Forecast, networks: Networks) -> str:
    """How sure an answer is for a machine of unknown rules."""
    verdict, cost = found.verdict, found.cost
    sure = "Sure" if verdict.kind == "sure" else "Not sure"
    text = (
        f"{sure}: with a probability of {percent(verdict.certainty)} no other candidate takes less "
        "by more than 1 %."
    )
    if verdict.rivals:
        text += f" It cannot be told apart from {_rivals(found)}."
    text += (
        " Which FIFO a message takes, how a node feeds them and which packet goes first are not "
        f"known: times are means over {cost.networks} networks, which differ by "
        f"{percent(networks.spread)} about a mapping."
    )
    if cost.measured:
        likely = max(networks.weights, key=lambda name: networks.weights[name])
        text += (
            f" Times of {counted(cost.measured, 'mapping')} weigh them; the likeliest is "
            f"'{likely}', {percent(networks.weights[likely])}."
        )
    else:
        text += " Measured times of a few candidates (--times) tell more."
    if cost.coarsening is not None and cost.coarsening > 1:
        text += f" Simulated packets are {cost.coarsening} times as long as real ones."
    return text


def _rivals(found: Forecast) -> str:
    """The likeliest of the candidates that may still be the fastest."""
    rivals = found.verdict.rivals
    named = ", ".join(shown_name(name) for name in rivals[:_NAMED])
    more = len(rivals) - _NAMED
    return f"{named}{f' and {more} others' if more > 0 else ''}"


def _trust_machine(found: Forecast) -> str:
    """How sure an answer is that rests on times of a machine."""
    verdict, cost = found.verdict, found.cost
    sure = "Sure" if verdict.kind == "sure" else "Not sure"
    text = (
        f"{sure}: with a probability of {percent(verdict.certainty)} no other candidate takes less "
        "by more than 1 %."
    )
    if verdict.rivals:
        noise = found.learned is not None and found.learned.runs.noise > 0
        text += f" It cannot be told apart from {_rivals(found)}{' at this noise' * noise}."
    if verdict.kind == "open" and cost.measured:
        text += " More runs of these decide."
    if cost.sketched:
        text += " The model reads a simulation of every candidate."
    return text
