"""The page of results and what stands beside it."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies import Bar, Chart, Experiment, Findings
from studies.bars import count_bars, describe_bar
from studies.folder import figure_name, write_findings
from studies.page import results_page
from toruscast.errors import InputError
from toruscast.report import markdown
from toruscast.report.machine import describe_machine

SCORES = pd.DataFrame({"features": ["prior", "H6"], "rcc": [0.91, 0.99512], "pairs": [378, 378]})
FINDINGS = Findings(
    "84 mappings, seed 1.",
    {"scores": SCORES, "long": SCORES},
    bars=(
        Bar("RCC, H6", 0.99512, 0.99, published=0.975),
        Bar("regret", 0.12, 0.1, "at most"),
        Bar("RCC, dilation", 0.6123, published=0.6),
    ),
    charts=(Chart("rcc", "bars", "scores", "features", "rcc", title="RCC [best]"),),
    shown=("scores",),
    notes=("Regret falls short: two mappings alike.",),
)
EXPERIMENTS = {
    "hybrids": Experiment("hybrids", "The hybrids", "samples", lambda _: FINDINGS),
    "gemini": Experiment(
        "gemini", "Gemini | AMG", "data", lambda _: FINDINGS, ("repo at 1a2b",), ("amg/*.out",)
    ),
}
PROVENANCE = {
    "n_samples": 1680,
    "command": "toruscast experiment build",
    "created": "2024-01-02",
    "toruscast": "0.1",
    "numpy": "2.0",
    "seed": 7,
    "level": 2,
    "routing": "by_size",
    "processor_seconds": {"2D Halo": 3600.0, "pF3D": 5400.0},
}
MACHINE = {"cpu": "a processor", "cores": "2", "numpy": "2.0"}


def page(findings=None, provenance=PROVENANCE, **options):
    found = {"hybrids": FINDINGS} if findings is None else findings
    seconds = dict.fromkeys(found, 12.34)
    return results_page(found, seconds, provenance, MACHINE, experiments=EXPERIMENTS, **options)


def cells(line):
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_page_is_the_same_from_the_same():
    assert page() == page()


def test_page_says_that_times_are_simulated():
    assert "come from toruscast's packet simulator, not\nfrom a machine" in page()
    assert "Simulated: times and counters come from the packet simulator." in page()
    measured = page({"gemini": FINDINGS})
    assert "`gemini`. Measured.\n\nSources:\n\n- repo at 1a2b" in measured


def test_page_has_every_bar_with_its_verdict():
    rows = [cells(line) for line in page().splitlines() if line.startswith("| [hybrids]")]
    link = "[hybrids](#hybrids)"
    assert rows == [
        [link, "RCC, H6", "0.975", ">= 0.99", "0.9951", "met"],
        [link, "regret", "-", "<= 0.1", "0.1200", "**missed**"],
        [link, "RCC, dilation", "0.6", "-", "0.6123", "-"],
    ]
    assert "1 of 2 bars are met." in page()
    assert '<a id="hybrids"></a>' in page()


def test_page_shows_text_tables_figures_and_notes():
    text = page()
    assert "84 mappings, seed 1." in text
    assert "| H6 | 0.9951 | 378 |" in text
    assert text.count("| H6 |") == 1
    assert "![RCC (best)](figures/results/hybrids.rcc.svg)" in text
    assert "- Regret falls short: two mappings alike." in text


def test_page_tells_versions_machine_seed_and_cost():
    text = page()
    assert "Machine: a processor, 2 cores. Versions: numpy 2.0." in text
    assert "1680, completed 2024-01-02 by `toruscast experiment build` with toruscast 0.1" in text
    assert "and numpy 2.0; seed 7" in text
    assert "Cost of the simulation: 2.50 processor hours" in text
    assert "| 2D Halo | 3600 |" in text
    assert "| hybrids | 12.3 |" in text


def test_page_tells_what_is_not_on_it():
    assert "- `gemini`, Gemini \\| AMG: not run" in page()
    assert "Gemini \\| AMG: failed, no disk" in page(failed={"gemini": "failed, no disk"})
    both = page({"gemini": FINDINGS, "hybrids": FINDINGS})
    assert "Not on this page" not in both
    # The order is that of the registry.
    assert both.index("## The hybrids") < both.index("## Gemini")


def test_page_tells_where_measurements_belong():
    both = page({"gemini": FINDINGS, "hybrids": FINDINGS})
    assert both.count("Read from the folder of `--data`: `amg/*.out`.") == 1
    assert "Read from the folder" not in page()


def test_page_without_anything():
    text = page({}, None)
    assert "No table of simulated samples was used." in text
    assert "## All bars\n\nNone." in text
    assert "## Cost" not in text


@pytest.mark.parametrize("spent", [None, "much", [1.0], {}, {"a": "b"}])
def test_page_of_samples_without_a_cost(spent):
    text = page(provenance={"processor_seconds": spent})
    assert "Cost of the simulation: not recorded" in text
    assert "seed unknown" in text


@given(
    measured=st.floats(-1e6, 1e6),
    gap=st.sampled_from([0.0, 1e-12, 1e-7, -1e-12, -1e-7, 0.3]),
    kind=st.sampled_from(["at least", "at most"]),
)
def test_rounding_never_changes_the_verdict(measured, gap, kind):
    bar = Bar("x", measured, measured + gap, kind)
    text = describe_bar(bar)
    assert text.verdict == ("met" if bar.met else "missed")
    assert Bar("x", float(text.measured), bar.bar, kind).met == bar.met
    assert float(text.measured) == pytest.approx(measured, rel=1e-3, abs=1e-300)


@pytest.mark.parametrize("bar", [0.99, float("nan")])
@pytest.mark.parametrize(
    ("published", "shown"), [(1 - 16 / 378, "0.9577"), (0.98, "0.98"), (70, "70"), (14028, "14028")]
)
def test_published_figures_are_rounded_like_measured_ones(published, shown, bar):
    assert describe_bar(Bar("RCC", 0.9, bar, published=published)).published == shown


def test_figures_that_are_missing_are_missed():
    text = describe_bar(Bar("RCC", float("nan"), 0.99))
    assert (text.measured, text.verdict) == ("-", "missed")
    assert describe_bar(Bar("regret", float("inf"), 0.1, "at most")).measured == "infinite"
    assert count_bars({"a": FINDINGS, "b": FINDINGS}) == (2, 4)


@given(st.floats(-1e300, 1e300))
def test_numbers_keep_four_digits(value):
    assert float(markdown.number(value)) == pytest.approx(value, rel=5.01e-4)


def test_tables_keep_their_cells():
    table = pd.DataFrame(
        {
            "a|b": ["x | y\nz", None, "<script>\x07"],
            "n": [1.0, np.nan, 3.0],
            "share": [0.5, 1.0, np.inf],
            "met": [True, False, True],
        },
        index=pd.Index(["p", "q", "r"], name="case"),
    )
    lines = markdown.table(table).splitlines()
    assert [len(re.split(r"(?<!\\)\|", line)) for line in lines] == [7] * 5
    assert lines[1] == "| --- | --- | ---: | ---: | --- |"
    assert lines[2] == r"| p | x \| y z | 1 | 0.5000 | yes |"
    assert lines[3] == "| q | - | - | 1.000 | no |"
    assert lines[4] == "| r | &lt;script>? | 3 | infinite | yes |"
    assert "case" not in markdown.table(table.reset_index(drop=True))


def test_machine_is_described_in_texts():
    machine = describe_machine()
    assert json.loads(json.dumps(machine)) == machine
    assert {"cpu", "cores", "toruscast", "Python", "numpy", "scikit-learn"} <= set(machine)
    assert all(machine.values())


def test_folder_has_every_table_and_chart(tmp_path):
    files = write_findings("hybrids", FINDINGS, tmp_path / "out")
    assert [str(file.relative_to(tmp_path / "out")) for file in files] == [
        "tables/hybrids/scores.csv",
        "tables/hybrids/long.csv",
        "figures/results/hybrids.rcc.svg",
    ]
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == sorted(files)
    pd.testing.assert_frame_equal(pd.read_csv(files[0]), SCORES)
    for name in re.findall(r"\]\((figures/[^)]*)\)", page()):
        assert (tmp_path / "out" / name).is_file()


def test_named_index_is_written(tmp_path):
    findings = Findings("", {"t": SCORES.set_index("features")})
    (file,) = write_findings("e", findings, tmp_path)
    pd.testing.assert_frame_equal(pd.read_csv(file), SCORES)


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/b", "", ".hidden", "a\0b", "a b"])
def test_names_stay_in_the_folder(name, tmp_path):
    with pytest.raises(InputError, match="bad file name"):
        write_findings("e", Findings("", {name: SCORES}), tmp_path / "in")
    with pytest.raises(InputError, match="bad file name"):
        write_findings(name, Findings("", {"t": SCORES}), tmp_path / "in")
    with pytest.raises(InputError, match="bad file name"):
        figure_name("e", Chart(name, "bars", "t", "a", "b"))
    assert list(tmp_path.rglob("*")) == []


def test_figures_of_two_experiments_never_share_a_name():
    names = [
        figure_name(experiment, Chart(chart, "bars", "t", "a", "b"))
        for experiment in ("a", "a-b", "b")
        for chart in ("a", "b", "a-b", "b-a")
    ]
    assert len(set(names)) == len(names)
