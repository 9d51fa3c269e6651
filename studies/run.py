"""Runs experiments one after the other and writes what they found, as far as they got."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toruscast.cli.failures import described, wants_traceback
from toruscast.cli.names import closest
from toruscast.cli.output import Output, check_folder, plain, write_text
from toruscast.cli.tables import new_table, one_line

if TYPE_CHECKING:
    from . import Experiment, Findings, Inputs

ALL = "all"


@dataclass
class Outcome:
    """What has come of a run so far; everything by name of experiment."""

    provenance: dict[str, Any] | None
    machine: dict[str, str]
    findings: dict[str, Findings] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def run(
    names: tuple[str, ...],
    out: str,
    data: str | None,
    samples: str | None,
    jobs: int,
    output: Output,
) -> int:
    """Run experiments, write their results into the folder ``out``, and return the exit code.

    Raises
    ------
    InputError
        If there is no such experiment, what it needs is missing, or ``out`` is no folder; and what
        the experiment raises where it is the only one.
    """
    from toruscast.report.drawing import figure
    from toruscast.report.machine import describe_machine
    from toruscast.training import read_samples

    from . import Inputs

    chosen, left_out = _chosen(names, data)
    table = _samples(samples) if any(e.needs == "samples" for e in chosen) else None
    inputs = Inputs(table, _folder(data), jobs)
    # What would fail after the work fails before it.
    check_folder(out)
    folder = Path(out)
    with figure(1, 1):
        pass
    provenance = None if table is None else read_samples(table).attrs["provenance"]
    outcome = Outcome(provenance, describe_machine(), failed=left_out)
    if left_out:
        output.message(f"left out without --data: {', '.join(left_out)}")
    code = 0
    for number, experiment in enumerate(chosen, start=1):
        output.message(f"{number} of {len(chosen)}: {experiment.name}, {experiment.title}")
        try:
            _run_one(experiment, inputs, folder, outcome)
        except Exception as error:
            if len(chosen) == 1 or wants_traceback():
                raise
            code = max(code, _failed(experiment.name, error, outcome, output))
        _write(folder, outcome)
    _print(outcome, folder, output)
    return code


def _chosen(names: tuple[str, ...], data: str | None) -> tuple[list[Experiment], dict[str, str]]:
    """Return the experiments to run, and those that "all" leaves out with the reason."""
    from toruscast.errors import InputError

    from . import EXPERIMENTS

    known = [*EXPERIMENTS, ALL]
    for name in names:
        if name not in known:
            raise InputError("unknown experiment", found=name, expected=closest(name, known))
    if ALL not in names:
        chosen = [EXPERIMENTS[name] for name in dict.fromkeys(names)]
        for experiment in chosen:
            if experiment.needs == "data" and data is None:
                raise InputError(
                    f"experiment {experiment.name} needs measurements",
                    expected="--data DIR; 'python -m studies list' names the sources",
                )
        return chosen, {}
    left_out = {
        name: "not run, for want of the measurements (--data)"
        for name, experiment in EXPERIMENTS.items()
        if experiment.needs == "data" and data is None
    }
    chosen = [e for name, e in EXPERIMENTS.items() if name not in left_out]
    if not chosen:
        raise InputError("no experiment to run", expected="--data DIR" if left_out else None)
    return chosen, left_out


def _samples(file: str | None) -> Path:
    if file is not None:
        return Path(file)
    from toruscast import datasets

    return datasets.experiment_samples()


def _folder(data: str | None) -> Path | None:
    """Return the folder of measurements, or raise if it is none."""
    from toruscast.errors import InputError

    if data is None:
        return None
    try:
        if Path(data).is_dir():
            return Path(data)
    except (OSError, ValueError):
        pass
    raise InputError("no such folder", file=data, expected="--data with the measurements")


def _run_one(experiment: Experiment, inputs: Inputs, folder: Path, outcome: Outcome) -> None:
    from .folder import write_findings

    start = time.perf_counter()
    findings = experiment.run(inputs)
    seconds = time.perf_counter() - start
    write_findings(experiment.name, findings, folder)
    outcome.findings[experiment.name] = findings
    outcome.seconds[experiment.name] = seconds


def _failed(name: str, error: Exception, outcome: Outcome, output: Output) -> int:
    """Note why an experiment found nothing; the others still can."""
    text, code = described(error)
    reason = one_line(text)
    outcome.failed[name] = f"failed, {reason}"
    output.message(f"error: {name}: {reason}")
    return code


def _write(folder: Path, outcome: Outcome) -> None:
    """Write page and record of what has come of the run so far."""
    from . import EXPERIMENTS
    from .page import results_page

    # The folder may hold what an earlier run found of these.
    absent = dict.fromkeys(EXPERIMENTS, "not run this time") | outcome.failed
    page = results_page(
        outcome.findings,
        outcome.seconds,
        outcome.provenance,
        outcome.machine,
        experiments=EXPERIMENTS,
        failed=absent,
    )
    record = {
        "machine": outcome.machine,
        "samples": outcome.provenance,
        "experiments": [
            {
                "name": name,
                "title": EXPERIMENTS[name].title,
                "needs": EXPERIMENTS[name].needs,
                "sources": EXPERIMENTS[name].sources,
                "seconds": outcome.seconds[name],
                "bars": [{**asdict(bar), "met": bar.met} for bar in found.bars],
                "notes": found.notes,
                "tables": list(found.tables),
            }
            for name, found in outcome.findings.items()
        ],
        "not_run": outcome.failed,
    }
    folder.mkdir(exist_ok=True)
    write_text(page, str(folder / "results.md"))
    text = json.dumps(plain(record), indent=2, allow_nan=False) + "\n"
    write_text(text, str(folder / "findings.json"))


def _print(outcome: Outcome, folder: Path, output: Output) -> None:
    """Print a row for each bar."""
    from studies.bars import count_bars, describe_bar

    console = output.console()
    head = ("experiment", "what", "published", "bar", "measured", "")
    shown = new_table(*head, left=("experiment", "what", ""))
    for name, found in outcome.findings.items():
        for bar in found.bars:
            text = describe_bar(bar)
            shown.add_row(name, bar.what, text.published, text.bar, text.measured, text.verdict)
    if shown.row_count:
        console.print(shown)
        console.print()
    met, all_bars = count_bars(outcome.findings)
    verdict = f"{met} of {all_bars} bars are met" if all_bars else "No bars are set"
    console.print(f"{verdict}; all results: {folder / 'results.md'}")
