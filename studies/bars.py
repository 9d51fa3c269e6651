"""Bars of experiments in words, for pages and terminals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from toruscast.report.markdown import NOTHING, number

from .experiment import Bar, Findings

_SIGNS = {"at least": ">=", "at most": "<="}
_MOST_DIGITS = 17


class BarText(NamedTuple):
    """A bar in words: ``verdict`` is "met", "missed", or a dash where there is no bar."""

    published: str
    bar: str
    measured: str
    verdict: str


def describe_bar(bar: Bar) -> BarText:
    """Return the figures of a bar, the measured one in as many digits as the verdict needs.

    What was published is rounded to four digits.

    Examples
    --------
    >>> describe_bar(Bar("RCC", 0.98999, 0.99, published=0.95))
    BarText(published='0.95', bar='>= 0.99', measured='0.98999', verdict='missed')
    >>> describe_bar(Bar("RCC", 0.6, published=0.61)).bar
    '-'
    """
    if bar.met is None:
        return BarText(_published(bar.published), NOTHING, _short(bar.measured), NOTHING)
    digits = 4
    while digits < _MOST_DIGITS and not _tells(bar, digits):
        digits += 1
    return BarText(
        _published(bar.published),
        f"{_SIGNS[bar.kind]} {_exact(bar.bar)}",
        _short(bar.measured, digits),
        "met" if bar.met else "missed",
    )


def count_bars(findings: Mapping[str, Findings]) -> tuple[int, int]:
    """Return how many bars are met, and how many there are; those only shown do not count."""
    met = [bar.met for found in findings.values() for bar in found.bars if bar.met is not None]
    return sum(met), len(met)


def _tells(bar: Bar, digits: int) -> bool:
    """Whether the rounded figure is on the same side of the bar as the figure."""
    if not math.isfinite(bar.measured):
        return True
    return Bar("", float(number(bar.measured, digits)), bar.bar, bar.kind).met == bar.met


def _short(value: float, digits: int = 4) -> str:
    return str(int(value)) if float(value).is_integer() else number(value, digits)


def _published(value: float) -> str:
    """Return a figure to four digits, and to no more than it was published with."""
    return _exact(float(number(value))) if math.isfinite(value) else NOTHING


def _exact(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.10g}"
