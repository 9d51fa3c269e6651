"""The pages of the benchmarks say what the recorded CSV files hold, and no bar can vanish."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from benchmark_modules import BENCHMARKS, load

ROOT = Path(__file__).parents[2]
RESULTS = BENCHMARKS / "results"


@pytest.fixture(scope="module")
def bars():
    return load("bars")


def test_every_bar_has_a_figure(bars):
    found = list(bars.bars(RESULTS))
    assert len(found) >= len(bars.VALIDATION) + 5
    assert len({bar.what for bar in found}) == len(found)


def test_what_is_missed_stands_on_the_page(bars):
    page = (ROOT / "docs/reference/simulator.md").read_text()
    for bar in bars.bars(RESULTS):
        assert (f"| {bar.what} |" in page) == bar.missed


def test_pages_hold_what_the_files_hold(bars, tmp_path):
    report, scaling = load("report"), load("pmnf_bars")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    report.main(RESULTS, tmp_path / "docs")
    tables = {
        "held-out": scaling.real_table(RESULTS),
        "known": scaling.known_table(RESULTS / "pmnf-uniform-1.csv"),
    }
    report.fill(tmp_path / "docs/scaling/pmnf.md", tables)
    for page in ROOT.glob("docs/**/*.md"):
        assert (tmp_path / page.relative_to(ROOT)).read_text() == page.read_text(), page.name


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("validation-summary.csv", lambda table: table.drop(columns="rcc")),
        ("validation-summary.csv", lambda table: table.iloc[1:]),
        ("kernels.csv", lambda table: table.assign(per_second=float("nan"))),
        ("bisection.csv", lambda table: table[table["torus"] != "8x8x8"]),
    ],
)
def test_a_missing_figure_is_an_error(bars, tmp_path, file, change):
    shutil.copytree(RESULTS, tmp_path / "results")
    change(pd.read_csv(RESULTS / file)).to_csv(tmp_path / "results" / file, index=False)
    with pytest.raises(ValueError, match=rf"{file}: found no"):
        list(bars.bars(tmp_path / "results"))
