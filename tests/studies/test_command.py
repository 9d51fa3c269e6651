"""``python -m studies``, its pages and its charts."""

import errno
import json
import math
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import studies.command as module
from studies import STUDIES
from studies.charts import draw_chart
from studies.page import described, study_page
from studies.study import Chart, Findings, Study, Target
from toruscast import InputError

TABLE = pd.DataFrame(
    {"size": ["8 B", "4 MB"] * 2, "rcc": [0.5, 0.75, 1.0, 0.25], "set": list("aabb")}
)


def found(inputs):
    return Findings(
        "What came out: **little**.",
        {"scores": TABLE},
        {"Scores": TABLE},
        (
            Target("RCC", 0.98999, 0.99, published=0.9),
            Target("regret", 0.1, 0.2, "at most"),
            Target("seconds", 3.0),
        ),
        {"rcc": Chart("dots", TABLE, "size", "rcc", "set", "RCC by size")},
    )


def fails(inputs):
    raise InputError("no luck", file="a.txt")


FAKE = {
    "works": Study("works", "One that works", "About it.", "samples", {"The part": found}),
    "fails": Study("fails", "One that fails", "", "samples", {"It": fails}),
    "needs": Study("needs", "Needs data", "", "data", {"It": found}, ("a source",), ("a/*.csv",)),
}


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "STUDIES", FAKE)

    def _call(line):
        return CliRunner().invoke(module.command, shlex.split(line))

    return _call


def test_list_names_needs_and_sources(call):
    said = call("list").output
    for text in ("One that works", "simulated samples", "needs: a source", "DIR/a/*.csv"):
        assert text in said


def test_run_writes_page_tables_figure_and_record(call, tmp_path):
    result = call("run works --out out -q")
    assert result.exit_code == 0
    page = (tmp_path / "out/works.md").read_text()
    for text in (
        "# One that works",
        "About it.",
        "**The part.** What came out",
        "**little**",
        "| size | rcc |",
    ):
        assert text in page
    assert "(figures/works-rcc.svg)" in page
    assert "(tables/works)" in page
    assert pd.read_csv(tmp_path / "out/tables/works/scores.csv").equals(TABLE)
    figures = pd.read_csv(tmp_path / "out/tables/works/figures.csv")
    assert figures["met"].fillna("").tolist() == ["no", "yes", ""]
    assert figures["reached"].tolist() == [0.98999, 0.1, 3.0]
    record = json.loads((tmp_path / "out/findings.json").read_text())
    assert [figure["met"] for figure in record["figures"]] == [False, True, None]
    index = (tmp_path / "out/README.md").read_text()
    assert "| [`works`](works.md) | One that works |" in index
    assert "| `needs` | Needs data (not run this time) |" in index
    first = (tmp_path / "out/figures/works-rcc.svg").read_bytes()
    call("run works --out out -q")
    assert (tmp_path / "out/figures/works-rcc.svg").read_bytes() == first


def test_one_that_fails_leaves_the_others(call, tmp_path):
    result = call("run all --out out -q")
    assert result.exit_code == 1
    index = (tmp_path / "out/README.md").read_text()
    assert "failed: a.txt: no luck" in index
    assert "not run: it needs the measurements (--data)" in index
    assert (tmp_path / "out/works.md").is_file()
    assert not (tmp_path / "out/fails.md").exists()


def test_a_full_disk_leaves_no_empty_folder(call, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    assert call("run fails --out out -q").exit_code == 2
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("studies.run.atomic_path", full)
    assert call("run works --out out -q").exit_code == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["figures"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "run work --out out",
            "unknown study: found work, expected one of works, fails",
        ),
        ("run needs --out out", "study needs needs measurements"),
        ("run fails --out out", "a.txt: no luck"),
        ("run works --out out --data none", "none: no such folder"),
        ("build", "expected --out FILE.parquet, or --dry-run"),
        ("build --out a.csv", "a.csv: samples are written as Parquet"),
        ("build --dry-run --only nothing", "no such block: found nothing"),
    ],
)
def test_wrong_input_is_told_in_one_line(call, line, message):
    result = call(line)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_dry_run_lists_blocks_and_writes_nothing(call, tmp_path):
    said = call('build --dry-run --only "2d halo 8 b,"').output
    assert "4 blocks, 252 samples." in said
    assert list(tmp_path.iterdir()) == []


def test_every_study_has_a_page_of_at_most_a_hundred_and_thirty_lines_in_the_repository():
    docs = Path(__file__).parents[2] / "studies/results"
    for name in STUDIES:
        assert len((docs / f"{name}.md").read_text().splitlines()) <= 130


@given(st.floats(0, 1), st.floats(-1e-2, 1e-2), st.sampled_from(["at least", "at most"]))
def test_rounding_never_changes_the_verdict(target, gap, kind):
    asked = Target("x", target + gap, target, kind)
    _, _, reached, met = described(asked)
    assert Target("x", float(reached), float(f"{target:.10g}"), kind).met == (met == "yes") or (
        abs(gap) < 1e-5
    )


def test_a_page_says_first_what_holds_and_counts_many():
    targets = [Target("RCC", np.float64(0.5), 0.9), *[Target("R^2", 1.0, 0.9)] * 9]
    page = study_page(
        FAKE["works"], {"The part": Findings("Text.", {}, targets=tuple(targets))}, "abc"
    )
    assert "**What holds:** 9 of 10 figures of *The part*." in page
    assert "**What does not:** RCC 0.5000 (target >= 0.9)." in page
    assert page.index("What holds") < page.index("Text.")


def test_figures_that_are_missing_reach_nothing():
    assert described(Target("x", math.nan, 0.9)) == ("", ">= 0.9", "-", "no")


@pytest.mark.parametrize("kind", ["scatter", "panels"])
def test_charts_and_missing_folder(kind, tmp_path):
    table = TABLE.assign(said=TABLE["rcc"], series=TABLE["size"])
    chart = Chart(kind, table, "rcc", "said", "set", "Times (s)")
    draw_chart(chart, tmp_path / "a.svg")
    assert "Times (s)" in (tmp_path / "a.svg").read_text()
    with pytest.raises(InputError, match="none"):
        draw_chart(chart, tmp_path / "none" / "a.svg")
