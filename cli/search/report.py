"""What a search found, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..output import records

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.search.search import Found


def content(found: Found) -> dict[str, Any]:
    """Return all of it for JSON."""
    verdict = found.verdict
    return {
        "objective": found.objective,
        "best": found.mapping.name,
        "node": found.mapping.node.tolist(),
        "value": found.value,
        "given": found.given,
        "gain": found.gain,
        "gain_interval": list(found.gain_interval),
        "bound": found.bound,
        "verdict": None
        if verdict is None
        else {"kind": verdict.kind, "certainty": verdict.certainty},
        "proposals": found.proposals,
        "interrupted": found.interrupted,
        "compared": records(found.table),
    }


def print_found(found: Found, top: int, console: Console, given: str) -> None:
    """Print the best, what it gains, how near it is to the bound, and what it was compared with."""
    is_time = found.objective == "time"

    def shown(value: float) -> str:
        return f"{1e6 * value:.2f} us" if is_time else f"{value:.6g}"

    say = console.print
    how = "simulated" if is_time else "computed"
    say(f"best: {found.mapping.name}, {found.objective} {shown(found.value)} ({how})")
    low, high = found.gain_interval
    between = f" ({low:.1%} to {high:.1%})" if high - low > 1e-3 else ""
    say(f"{given}: {shown(found.given)}; the best takes {found.gain:.1%}{between} less")
    if found.bound > 0:
        far = f"the best is {found.above_bound:.1%} above it"
        if found.above_bound < 1e-3:
            far = "the best is at it"
        say(f"no mapping can have less than {shown(found.bound)}: {far}")
    if found.verdict is not None and found.verdict.kind != "proved":
        sure = f"{found.verdict.certainty:.0%}"
        say(f"that no other on the shortlist takes less by more than 1 %: {sure} sure")
    say(f"{found.proposals} changes tried, {len(found.table)} mappings compared:")
    for row in found.table.head(top).itertuples():
        say(f"  {shown(row.value):>14}  {row.how:<9}  {row.mapping}")  # type: ignore[arg-type]
    if found.interrupted:
        say("interrupted: this is the best so far")
