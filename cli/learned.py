"""What measured times taught, for JSON and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .output import records

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.training import Measured


def learned(found: Measured | None) -> dict[str, Any] | None:
    """Return it for JSON; None where nothing was measured."""
    if found is None:
        return None
    runs = found.runs
    return {
        "constant": found.line.constant,
        "slope": found.line.slope,
        "reference": found.model.reference,
        "corrected": found.corrected,
        "mappings": len(runs.names),
        "runs": len(runs.seconds),
        "noise": runs.noise,
        "drift": runs.drift,
        "outliers": [runs.names[runs.which[row]] for row in runs.outliers],
        "scores": found.scores,
        "tried": records(found.held_out),
    }


def print_learned(found: Measured, console: Console) -> None:
    """Print it, a sentence a line."""
    from toruscast.report.measured import learned_lines

    for line in learned_lines(found):
        console.print(line)
