"""What a plan of runs says, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.wording import counted, shown_name

from .units import percent, seconds

if TYPE_CHECKING:
    from toruscast.training import Plan, Standing

# Mappings that are named in a sentence.
_NAMED = 4


def standing_line(made: Plan) -> str:
    """Return the result in a sentence or two."""
    standing = made.standing
    best = shown_name(standing.best)
    if made.runs is None:
        if len(made.names) == 1:
            return f"{best} is the only mapping: nothing is to be found out."
        return f"Nothing was run yet; {best} is forecast to be the fastest."
    row = made.table.iloc[0]
    time = f"{seconds(row['measured'])} measured in {counted(int(row['runs']), 'run')}"
    certainty = "over 99 %" if standing.certainty > 0.995 else percent(standing.certainty)
    sure = f"{certainty} sure that no other takes less by more than "
    sure += f"{100 * standing.goal:.3g} %"
    most = _share(standing.gain)
    gain = f"more runs would gain {most if most.startswith('less') else f'at most {most}'}"
    if standing.kind == "tied":
        return f"{best} ({time}) cannot be told apart {_from(standing)} at this noise; {gain}."
    if standing.kind == "sure":
        return f"{best} is fastest: {time}, {sure}; {gain}."
    return f"{best} leads: {time}, {sure}; {gain}."


def runs_made(made: Plan, times: str | None = None) -> str:
    """Return how many runs there are."""
    file = "" if times is None else f" in {shown_name(times)}"
    if made.runs is None:
        return f"no run{file} yet"
    return f"{counted(made.n_runs, 'run')} of {counted(len(made.runs.names), 'mapping')}{file}"


def besides(made: Plan) -> str:
    """Return what is known of noise and computation."""
    standing, runs = made.standing, made.runs
    noise = _share(standing.noise)
    if runs is None:
        return "Times are those of the network alone, as the default model forecasts them."
    text = {
        "user": f"Noise of a run: {noise}, as you say.",
        "repetitions": f"Noise of a run: {noise}, from mappings that ran more than once.",
        "nothing": f"Noise of a run: about {noise}, a guess, as no mapping ran twice; --noise "
        "tells it.",
    }[standing.noise_from]
    if len(runs.names) > 2 and standing.constant >= 0.01:
        text += f" About {percent(standing.constant)} of a run do not depend on the mapping."
    if runs.is_outlier.any():
        names = dict.fromkeys(shown_name(runs.names[i]) for i in runs.which[runs.is_outlier])
        text += f" Left out, as far from other runs of the mapping: {', '.join(names)}."
    if runs.drift:
        text += f" Times drift by {_share(runs.drift)} from the first run to the last."
    return text


def _from(standing: Standing) -> str:
    """Return from which mappings the best cannot be told apart."""
    named = [shown_name(name) for name in standing.rivals[:_NAMED]]
    more = len(standing.rivals) - _NAMED
    if more > 0:
        return f"from {', '.join(named)} and {counted(more, 'other')}"
    return f"from {' and '.join([', '.join(named[:-1]), named[-1]] if named[1:] else named)}"


def _share(share: float) -> str:
    """Return a small share in per cent, to a tenth."""
    return "less than 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"
