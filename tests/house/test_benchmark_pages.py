"""The pages of the benchmarks say what the recorded CSV files hold, and no target can vanish."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from benchmark_modules import BENCHMARKS, load

ROOT = Path(__file__).parents[2]
RESULTS = BENCHMARKS / "results"


@pytest.fixture(scope="module")
def targets():
    return load("targets")


def test_every_target_has_a_figure(targets):
    found = list(targets.targets(RESULTS))
    assert len(found) >= len(targets.VALIDATION) + 5
    assert len({target.what for target in found}) == len(found)


def test_the_page_names_the_targets_that_are_not_reached(targets):
    page = (BENCHMARKS / "targets.md").read_text()
    for target in targets.targets(RESULTS):
        assert (f"| {target.what} |" in page) == (not target.is_reached)


def test_pages_hold_what_the_files_hold(tmp_path):
    report = load("report")
    for name in report.pages(RESULTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    report.main(RESULTS, tmp_path)
    for name in report.pages(RESULTS):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("validation-summary.csv", lambda table: table.drop(columns="rcc")),
        ("validation-summary.csv", lambda table: table.iloc[1:]),
        ("kernels.csv", lambda table: table.assign(per_second=float("nan"))),
        ("bisection.csv", lambda table: table[table["torus"] != "8x8x8"]),
    ],
)
def test_a_missing_figure_is_an_error(targets, tmp_path, file, change):
    shutil.copytree(RESULTS, tmp_path / "results")
    change(pd.read_csv(RESULTS / file)).to_csv(tmp_path / "results" / file, index=False)
    with pytest.raises(ValueError, match=rf"{file}: found no"):
        list(targets.targets(tmp_path / "results"))
