"""Make the pages of the studies, ``studies/results/*.md``, from their findings."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .markdown import cell, number, table
from .study import Findings, Study, Target

_MOST_DIGITS = 17
# A space before characters that begin a quotation, a heading or a list at the start of a line.
_BEFORE_SIGN = re.compile(r" (?=>|(?:[-+*]|#+|\d+[.)]) )")
# Maximum number of targets of a part that are named one by one.
_MOST_NAMED = 8


def study_page(study: Study, findings: Mapping[str, Findings], commit: str) -> str:
    """Return the page of a study in Markdown; equal arguments give equal pages.

    Parameters
    ----------
    study : Study
    findings : mapping of str to Findings
        By title of the part.
    commit : str
        The commit of the code that produced them.
    """
    parts = [f"# {study.title}", wrapped(study.text)]
    if verdict := _verdict(findings):
        parts.append(wrapped(verdict))
    if study.sources:
        parts.append("\n".join(wrapped(f"- {cell(text)}", "  ") for text in study.sources))
    shown = _joined(findings)
    for title, found in findings.items():
        if found.text:
            parts.append(wrapped(f"**{title}.** {found.text}"))
        for caption, values in shown[title].items():
            parts += [f"{caption}:", table(values)]
        drawn = [
            f"![{cell(chart.title)}](figures/{study.name}-{name}.svg)"
            for name, chart in found.charts.items()
        ]
        parts += ["\n".join(drawn)] if drawn else []
    place = f"tables/{study.name}"
    parts.append(
        f"All tables are in [{place}]({place}). figures.csv lists all figures with their targets. "
        f"Figures of commit {commit}."
    )
    return "\n\n".join(parts) + "\n"


def _verdict(findings: Mapping[str, Findings]) -> str:
    """Return a text about the reached and missed targets; many targets of one part are counted."""
    said: dict[bool, list[str]] = {True: [], False: []}
    for title, found in findings.items():
        wanted = [target for target in found.targets if target.met is not None]
        for holds, listed in said.items():
            own = [target for target in wanted if bool(target.met) is holds]
            if len(own) > _MOST_NAMED:
                listed.append(f"{len(own)} of {len(wanted)} figures of *{title}*")
                continue
            for target in own:
                _, aim, reached, _ = described(target)
                listed.append(f"{target.what} {reached} (target {aim})")
    named = {"What holds": said[True], "What does not": said[False]}
    return " ".join(f"**{what}:** {'; '.join(some)}." for what, some in named.items() if some)


def _joined(findings: Mapping[str, Findings]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the tables of each part; tables with equal captions are joined in the last part."""
    shown: dict[str, dict[str, pd.DataFrame]] = {title: {} for title in findings}
    place: dict[str, str] = {}
    for title, found in findings.items():
        for caption, values in found.shown.items():
            if caption in place:
                values = shown[place[caption]].pop(caption).merge(values, how="left")
            shown[title][caption] = values
            place[caption] = title
    return shown


def index_page(
    studies: Mapping[str, Study],
    findings: Mapping[str, Mapping[str, Findings]],
    left_out: Mapping[str, str],
    machine: Mapping[str, str],
    provenance: Mapping[str, Any] | None,
) -> str:
    """Return the page that lists the studies, with the machine and versions of the run.

    Examples
    --------
    >>> "a processor" in index_page({}, {}, {}, {"cpu": "a processor", "cores": "2"}, None)
    True
    """
    rows = []
    for name, study in studies.items():
        if name not in findings:
            what = left_out.get(name, "not run this time")
            rows.append((f"`{name}`", f"{cell(study.title)} ({cell(what)})"))
            continue
        rows.append((f"[`{name}`]({name}.md)", cell(study.title)))
    head = "| study | what is repeated |\n| --- | --- |\n"
    versions = ", ".join(f"{key} {value}" for key, value in machine.items() if key != "cpu")
    return (
        "\n\n".join(
            [
                "# Studies",
                wrapped(
                    "These pages show how accurate the predictions are. Each study repeats "
                    "published experiments or uses public measurements. `python -m studies run all "
                    "--out DIR --data FOLDER` writes all pages, tables and figures again, and "
                    "`python -m studies list` names the sources of the measurements. "
                    "[Measurements](../../benchmarks/measurements.md) "
                    "compares the simulator with other engines and gives its speed."
                ),
                head + "\n".join("| " + " | ".join(row) + " |" for row in rows),
                wrapped(f"Run on: {cell(machine.get('cpu', ''))}, {cell(versions)}."),
                wrapped(_samples(provenance)),
            ]
        ).rstrip()
        + "\n"
    )


def _samples(provenance: Mapping[str, Any] | None) -> str:
    if provenance is None:
        return ""
    known = {key: cell(provenance.get(key, "unknown")) for key in ("n_samples", "created", "seed")}
    spent = sum(provenance.get("processor_seconds", {}).values()) / 3600
    return (
        f"Simulated samples: {known['n_samples']}, completed {known['created']}, seed "
        f"{known['seed']}, {number(spent, 3)} processor hours. `python -m studies build` "
        "simulates them again. With `--dry-run` it lists the blocks, and the number of real "
        "packets per simulated packet ([effect on "
        "times](../../benchmarks/measurements.md#coarser-packets))."
    )


def wrapped(text: str, indent: str = "") -> str:
    """Return paragraphs with lines of at most 160 characters.

    A line is not broken before a character that would begin a quotation or a list.
    """
    filled = (
        textwrap.fill(
            _BEFORE_SIGN.sub("\N{NO-BREAK SPACE}", " ".join(part.split())),
            160,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for part in text.strip().split("\n\n")
    )
    return "\n\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")


def target_table(findings: Mapping[str, Findings]) -> pd.DataFrame:
    """Return a table of all figures of a study: what, published, target, reached, met."""
    return pd.DataFrame(
        [
            (title, target.what, *described(target))
            for title, found in findings.items()
            for target in found.targets
        ],
        columns=["part", "what", "published", "target", "reached", "met"],
    )


def described(target: Target) -> tuple[str, str, str, str]:
    """Return published, target, reached and met as text; the digits show whether it is met.

    Examples
    --------
    >>> described(Target("RCC", 0.98999, 0.99, published=0.95))
    ('0.95', '>= 0.99', '0.98999', 'no')
    >>> described(Target("RCC", 0.6, published=0.61))
    ('0.61', '', '0.6000', '')
    """
    published = "" if math.isnan(target.published) else f"{target.published:.4g}"
    if target.met is None:
        return published, "", number(target.reached), ""
    digits = 4
    while digits < _MOST_DIGITS and not _tells(target, digits):
        digits += 1
    sign = ">=" if target.kind == "at least" else "<="
    reached, met = number(target.reached, digits), "yes" if target.met else "no"
    return published, f"{sign} {target.target:.10g}", reached, met


def _tells(target: Target, digits: int) -> bool:
    """Return whether the rounded figure is on the same side of the target as the exact one."""
    if not math.isfinite(target.reached):
        return True
    rounded = float(number(target.reached, digits))
    return Target("", rounded, target.target, target.kind).met == target.met
