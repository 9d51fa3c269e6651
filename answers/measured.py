"""What measured times taught, in sentences."""

from __future__ import annotations

import math

import numpy as np

from toruscast.training import Measured, Runs
from toruscast.training.measured.references import in_words
from toruscast.wording import counted, shown_name

from .units import number, time_unit

# Outliers that are named.
_NAMED = 3
_SMALL = 1e-4


def learned_lines(found: Measured) -> list[str]:
    """Return what was learned, whether features add to it, and what noise lets anybody know."""
    return [_line(found), _offer(found), *_noise(found.runs, found.scores), *_oddities(found.runs)]


def _line(found: Measured) -> str:
    """How much of the time does not depend on the mapping, and what the rest follows."""
    median = float(np.median(found.runs.times))
    scale, unit = time_unit([median])
    reference = in_words(found.model.reference)
    if not found.line.slope:
        return f"The times do not follow {reference}."
    constant, slope = number(found.line.constant / scale), number(found.line.slope)
    return (
        f"Of {number(median / scale, 4)} {unit}, the median, {constant} {unit} do not depend on "
        f"the mapping; the rest is {slope} times {reference}."
    )


def _offer(found: Measured) -> str:
    """Which model is offered, and how much better it is on times kept from it."""
    scores = found.scores
    miss, plain = _percent(scores["miss"]), _percent(scores["miss_of_line"])
    if found.corrected:
        return (
            f"Features correct this line: it misses times kept from it by {plain} in the mean, "
            f"with features by {miss}."
        )
    return (
        f"This line is the model: it misses times kept from it by {miss} in the mean, and features "
        "make that no better by a tenth."
    )


def _noise(runs: Runs, scores: dict[str, float]) -> list[str]:
    """How far the runs of one mapping differ, and what order that leaves possible."""
    reached = f"Mappings held out are ordered with an RCC of {scores['rcc']:.3f}"
    if math.isnan(runs.noise):
        return [
            f"{reached}. Every mapping ran once, so that the noise is not known: all that the "
            "model misses counts as such. A second run of some mappings would tell."
        ]
    if not runs.noise:
        return [f"{reached}. Runs of one mapping do not differ."]
    return [
        f"{reached}; noise lets no forecast be expected above {scores['rcc_possible']:.3f}. Runs "
        f"of one mapping vary by {_percent(runs.noise)}: {_percent(scores['tied'])} of the pairs "
        "cannot be told apart at this noise."
    ]


def _oddities(runs: Runs) -> list[str]:
    """A drift over the rows, and runs that lie far from the others of their mapping."""
    drift = []
    if runs.drift:
        way = "longer" if runs.drift > 0 else "shorter"
        drift = [
            f"Runs took {_percent(abs(runs.drift))} {way} at the end of the table than at its "
            "beginning: run the mappings in a random order, several times."
        ]
    rows = runs.outliers
    if not rows.size:
        return drift
    told = []
    for row in rows[:_NAMED]:
        number = int(runs.which[row])
        where = f" (line {runs.lines[row]})" if runs.lines else ""
        share = runs.seconds[row] / runs.times[number]
        told.append(f"{shown_name(runs.names[number])}{where}, {share:.2g} times its median")
    more = f" and {rows.size - _NAMED} more" if rows.size > _NAMED else ""
    return [*drift, f"{counted(rows.size, 'outlier')}: {'; '.join(told)}{more}."]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= _SMALL else "less than 0.01 %"
