"""Run studies one after another and write the findings of each when it is done."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from toruscast import InputError
from toruscast.answers.html import describe_machine
from toruscast.cli.progress import show_progress
from toruscast.files import atomic_path, folder_to_fill
from toruscast.training import read_samples

from .page import index_page, study_page, target_table
from .study import Findings, Inputs, Study

ALL = "all"


def run(
    names: Sequence[str], out: Path, inputs: Inputs, studies: Mapping[str, Study], quiet: bool
) -> tuple[dict[str, dict[str, Findings]], dict[str, str]]:
    """Run studies and write their pages, tables and figures into the folder ``out``.

    If one of several studies fails, it is omitted with the reason.

    Returns
    -------
    findings : dict
        Findings by study and title of the part.
    left_out : dict of str to str
        Studies without findings, with the reason.

    Raises
    ------
    InputError
        If there is no such study, or something that it needs is missing. Errors of the study itself
        are raised if it is the only one.
    """
    chosen, left_out = _chosen(names, inputs, studies)
    if find_spec("matplotlib") is None:
        print("matplotlib is not installed: there will be no figures", file=sys.stderr)
    findings: dict[str, dict[str, Findings]] = {}
    seconds: dict[str, float] = {}
    total = sum(len(study.parts) for study in chosen)
    done = count()
    with folder_to_fill(out), show_progress("Studies") as progress:
        for number, study in enumerate(chosen, start=1):
            if not quiet:
                print(f"{number} of {len(chosen)}: {study.name}, {study.title}", file=sys.stderr)
            start = time.perf_counter()
            found: dict[str, Findings] = {}
            try:
                for title, part in study.parts.items():
                    progress(f"{study.name}: {title}", next(done), total)
                    found[title] = part(inputs)
            except Exception as error:
                if len(chosen) == 1:
                    raise
                left_out[study.name] = "failed: " + " ".join(str(error).split())
                print(f"error: {study.name}: {left_out[study.name]}", file=sys.stderr)
                continue
            findings[study.name] = found
            seconds[study.name] = time.perf_counter() - start
            _write_study(study, found, out)
    sampled = any(studies[name].needs == "samples" for name in findings)
    origin = None
    if sampled and inputs.samples is not None:
        origin = read_samples(inputs.samples).attrs["provenance"]
    machine = describe_machine()
    _write(index_page(studies, findings, left_out, machine, origin), out / "README.md")
    record = {
        "machine": machine,
        "seconds": seconds,
        "left_out": left_out,
        "figures": [
            {"study": name, "part": title, **asdict(target), "met": target.met}
            for name, found in findings.items()
            for title, part in found.items()
            for target in part.targets
        ],
    }
    _write(json.dumps(_plain(record), indent=1) + "\n", out / "findings.json")
    return findings, left_out


def _chosen(
    names: Sequence[str], inputs: Inputs, studies: Mapping[str, Study]
) -> tuple[list[Study], dict[str, str]]:
    """Return the studies to run, and those that "all" omits, with the reasons."""
    known = [*studies, ALL]
    for name in names:
        if name not in known:
            raise InputError("unknown study", found=name, expected=f"one of {', '.join(known)}")
    asked = studies if ALL in names else {name: studies[name] for name in names}
    lacking = {n for n, s in asked.items() if s.needs == "data" and inputs.data is None}
    programs = {n: what for n, study in asked.items() if (what := study.missing())}
    if ALL in names:
        left_out = dict.fromkeys(lacking, "not run: it needs the measurements (--data)")
        left_out |= {name: f"not run: it needs {what}" for name, what in programs.items()}
        return [study for name, study in studies.items() if name not in left_out], left_out
    for name in sorted(lacking):
        sources = "--data DIR; 'python -m studies list' names the sources"
        raise InputError(f"study {name} needs measurements", expected=sources)
    for name, what in programs.items():
        raise InputError(f"study {name} needs a program", expected=what)
    return [studies[name] for name in dict.fromkeys(names)], {}


def _write_study(study: Study, findings: Mapping[str, Findings], out: Path) -> None:
    """Write page, tables and figures of a study."""
    tables = {"figures": target_table(findings)}
    for found in findings.values():
        tables |= found.tables
        for name, chart in found.charts.items():
            if find_spec("matplotlib") is None:
                continue
            from .charts import draw_chart

            with folder_to_fill(out / "figures") as folder:
                draw_chart(chart, folder / f"{_file_name(study.name)}-{_file_name(name)}.svg")
    for name, values in tables.items():
        if len(values):
            path = out / "tables" / _file_name(study.name) / f"{_file_name(name)}.csv"
            text = values.to_csv(index=False, lineterminator="\n", float_format="%.6g")
            _write(text, path)
    _write(study_page(study, findings, describe_commit()), out / f"{_file_name(study.name)}.md")


def describe_commit() -> str:
    """Return the commit of this repository, with "and changes" if files differ from it.

    Examples
    --------
    >>> len(describe_commit()) >= 7
    True
    """
    git = shutil.which("git")
    if git is None:
        return "unknown"
    words = [git, "describe", "--always", "--dirty= and changes", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _write(text: str, path: Path) -> None:
    with folder_to_fill(path.parent), atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _file_name(name: str) -> str:
    """Return the name if it is a valid file name on every system."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
        raise InputError("bad file name", found=name, expected="letters, digits, - and _")
    return name


def _plain(value: Any) -> Any:
    """Return a value for JSON; NaN becomes null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
