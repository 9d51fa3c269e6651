"""Notes: what measurements cannot tell, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from toruscast.text import counted, percent

from .measurements import logarithms

Array = NDArray[np.float64]

# Logarithms of points are flat along a direction if their length along it is below this share.
_FLAT = 1e-6
# Two columns belong together if the flat directions link them by at least this much.
_LINKED = 1e-3
_LEVELS = 5
_VARIATION = 0.1
_APART = 0.2
_OFF = 0.1
# Relative size from which a percentage is hard to read.
_MANY = 10.0
# A smaller difference from a limit is rounding.
_MOST_DECIMALS = 6


class Note(str):
    """A sentence on one call path.

    Attributes
    ----------
    kind : str
        The part that is the same for every call path with such a note.

    Examples
    --------
    >>> note = Note("the repetitions vary by more than 10 %", "23 %")
    >>> print(note)
    the repetitions vary by more than 10 %: 23 %
    >>> note.kind
    'the repetitions vary by more than 10 %'
    """

    kind: str

    def __new__(cls, kind: str, detail: str = "") -> Self:
        """Return the sentence "kind: detail"."""
        note = super().__new__(cls, f"{kind}: {detail}" if detail else kind)
        note.kind = kind
        return note


OVERRULED = Note(
    "a coefficient is negative",
    "costs add up as a rule, but no sum of them meets these points; far away the formula may turn "
    "negative",
)
DECIDED = Note(
    "a negative coefficient was ruled out by the rule that costs add up",
    "the measurements alone would prefer one",
)
BELOW_ZERO = Note("the formula turns negative here", "a time or a count does not")


def of_points(names: Sequence[str], points: Array, active: Sequence[int]) -> list[Note]:
    """Return notes on the points of a fit that searched the parameters `active`.

    Examples
    --------
    >>> of_points(["p"], np.array([[2.0], [4.0]]), [0])
    ['parameter p has 2 values; five are needed for a reliable model']
    """
    counts = [np.unique(column).size for column in points.T]
    result = [
        Note(f"parameter {name} has {counted(n, 'value')}; five are needed for a reliable model")
        for name, n in zip(names, counts, strict=True)
        if n < _LEVELS
    ]
    for q in active:
        least = points[:, q].min()
        if least == 0:
            what = f"no logarithm and no falling power of parameter {names[q]} was searched"
            result.append(Note(what, "it has the value 0"))
        elif least < 1:
            what = f"no logarithm of parameter {names[q]} was searched"
            result.append(Note(what, "it has values below 1"))
    if not active:
        result.append(Note("no parameter was varied", "the model is a constant"))
    left_out = [name for q, name in enumerate(names) if q not in active and counts[q] > 1]
    if left_out:
        what = f"parameters {', '.join(left_out)} were left out"
        result.append(Note(what, "at most four are searched"))
    for group in confounded(points[:, active]):
        together = ", ".join(names[active[q]] for q in group)
        why = (
            "which of them changes the values is not known, and predictions where they are not "
            "varied so are guesses"
        )
        result.append(Note(f"parameters {together} were only varied together", why))
    return result


def of_places(
    names: Sequence[str], points: Array, active: Sequence[int], places: Array
) -> list[Note]:
    """Return notes on places where a parameter that is in no model has other values.

    Examples
    --------
    >>> of_places(["p"], np.array([[2.0]]), [], np.array([[4.0]]))
    ['parameter p was not varied: predictions take it to change nothing']
    """
    result = []
    for q, name in enumerate(names):
        measured = np.unique(points[:, q])
        if q not in active and not np.isin(places[:, q], measured).all():
            why = "left out" if measured.size > 1 else "not varied"
            note = Note(f"parameter {name} was {why}", "predictions take it to change nothing")
            result.append(note)
    return result


def of_path(
    variation: float, trusted: bool, low: float, high: float, off: float = 0.0
) -> list[Note]:
    """Return notes on one call path, whose repetitions have a coefficient of variation (or NaN).

    `low` and `high` are what the hypotheses predict at four times the largest values, `off` is the
    largest relative error of the formula at the points.
    """
    result = []
    if variation > _VARIATION:
        what = f"the repetitions vary by more than {percent(_VARIATION)}"
        result.append(Note(what, _more_than(variation, _VARIATION)))
    if high - low > _APART * abs(high + low) / 2:
        result.append(
            Note(
                "the measurements cannot tell hypotheses apart",
                f"at four times the largest values they predict {low:.3g} to {high:.3g}",
            )
        )
    if np.isfinite(variation) and not trusted:
        result.append(Note("no hypothesis meets the points within the noise of the repetitions"))
    if not trusted and off > _OFF:
        what = f"the formula is off by more than {percent(_OFF)} where it was measured"
        result.append(Note(what, f"up to {_more_than(off, _OFF)}"))
    return result


def _relative(relative: float) -> str:
    """Return a relative size in percent or, if that would be hard to read, as a factor.

    Examples
    --------
    >>> _relative(0.234), _relative(8.639e15)
    ('23 %', '8.6e+15 times the value')
    """
    if relative < _MANY:
        return percent(relative)
    return f"{relative:.2g} times the value"


def _more_than(relative: float, limit: float) -> str:
    """Return a relative size above a limit in percent, with decimals where rounding hides that."""
    decimals = 0
    while decimals < _MOST_DECIMALS and round(100 * relative, decimals) <= 100 * limit:
        decimals += 1
    return percent(relative, decimals) if decimals else _relative(relative)


def of_left_out(
    names: Sequence[str], points: Array, values: Array, left_out: NDArray[np.bool_]
) -> Note:
    """Return a note on the repetitions of a call path, (points, repetitions), left out of the fit.

    Examples
    --------
    >>> values = np.array([[9.0, 10.0, 11.0, 30.0]])
    >>> of_left_out(["p"], np.array([[64.0]]), values, values == 30)
    'a repetition far from the others is left out: at p=64 it is 3 times their median'
    """
    said = []
    for point, row, out in zip(points, values, left_out, strict=True):
        if out.any():
            where = ", ".join(f"{name}={x:g}" for name, x in zip(names, point, strict=True))
            others = np.nanmedian(row[~out])
            # A value next to nothing has no ratio.
            by = f"{row[out][0] / others:.2g} times" if others else f"{row[out][0]:.3g} beside 0,"
            said.append(f"at {where} it is {by} their median")
    return Note("a repetition far from the others is left out", "; ".join(said))


def confounded(points: Array) -> list[list[int]]:
    """Return groups of columns whose powers multiply to a constant at all points.

    Such columns were only varied together, as in (4, 4), (8, 8), ...

    Examples
    --------
    >>> confounded(np.array([[4.0, 16.0, 1.0], [8.0, 64.0, 2.0], [16.0, 256.0, 1.0]]))
    [[0, 1]]
    """
    if points.shape[1] < 2:
        return []
    logs = logarithms(points)
    logs -= logs.mean(axis=0)
    logs /= np.linalg.norm(logs, axis=0)
    values, directions = np.linalg.eigh(logs.T @ logs)
    flat = directions[:, values < _FLAT]
    # The directions themselves may mix independent groups; the projector onto them does not.
    linked = np.abs(flat @ flat.T) > _LINKED
    _, group = connected_components(linked, directed=False)
    together = (np.flatnonzero(group == k).tolist() for k in range(group.max() + 1))
    return [columns for columns in together if len(columns) > 1]
