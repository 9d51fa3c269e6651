"""What measured times taught, in sentences."""

from __future__ import annotations

import math

import numpy as np

from toruscast.training import Measured, Runs
from toruscast.training.references import in_words
from toruscast.wording import counted, printable

from .units import number, time_unit

# Outliers that are named.
_NAMED = 3
_SMALL = 1e-4


def learned_lines(found: Measured) -> list[str]:
    """Return what was learned, whether features add to it, and what noise lets anybody know."""
    return [_line(found), _offer(found), *noise_lines(found.runs, found.scores)]


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


def noise_lines(runs: Runs, scores: dict[str, float]) -> list[str]:
    """Return how far the runs of one mapping differ, and what of it stands out."""
    lines = []
    if math.isnan(runs.noise):
        lines.append(
            "Every mapping ran once, so that the noise is not known; all that the model misses "
            "counts as such. A second run of some mappings would tell."
        )
    elif runs.noise:
        lines.append(
            f"Runs of one mapping vary by {_percent(runs.noise)}: {_percent(scores['tied'])} of "
            "the pairs cannot be told apart at this noise, and no forecast can be expected to "
            f"reach an RCC above {scores['rcc_possible']:.3f}."
        )
    if runs.drift:
        way = "longer" if runs.drift > 0 else "shorter"
        lines.append(
            f"Runs took {_percent(abs(runs.drift))} {way} at the end of the table than at its "
            "beginning: run the mappings in a random order, several times."
        )
    return lines + outlier_lines(runs)


def outlier_lines(runs: Runs) -> list[str]:
    """Return which runs lie far from the others of their mapping, the farthest first."""
    rows = runs.outliers
    if not rows.size:
        return []
    told = []
    for row in rows[:_NAMED]:
        number = int(runs.which[row])
        where = f" (line {runs.lines[row]})" if runs.lines else ""
        share = runs.seconds[row] / runs.times[number]
        told.append(f"{printable(runs.names[number])}{where}, {share:.2g} times its median")
    more = f" and {rows.size - _NAMED} more" if rows.size > _NAMED else ""
    return [f"{counted(rows.size, 'outlier')}: {'; '.join(told)}{more}."]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= _SMALL else "less than 0.01 %"
