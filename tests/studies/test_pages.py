"""Pages of studies: the commit of their figures, and whether the studies still find them."""

import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from studies import STUDIES
from studies.command import SAMPLES
from studies.page import wrapped
from studies.run import describe_commit, run
from studies.study import Chart, Findings, Inputs, Study

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "studies/results", ROOT / "docs/studies"
DATA = ROOT.parent / "shared" / "data"
PAGES = sorted(path.name for path in (DOCS / "tables").iterdir())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_states_the_commit_of_its_figures(name):
    text = " ".join((RESULTS / f"{name}.md").read_text().split())
    assert re.search(r"(Figures of|tables stored by) commit [0-9a-f]{10}", text)


def test_no_line_of_a_page_begins_a_quotation_or_a_list():
    text = wrapped(" ".join(["0.98 (target >= 0.99) + 1 - 2 * 3. # 4)"] * 90))
    assert text.count("\n") > 10
    assert not re.search(r"^(>|[-+*] |# |\d+[.)] )", text, re.M)


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*.md")), ids=lambda page: page.stem)
def test_pages_have_no_quotation_and_their_links_lead_somewhere(page):
    text = page.read_text()
    assert not re.search(r"^>", text, re.M)
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAGES if STUDIES[name].needs != "program"])
def test_a_study_finds_the_figures_of_its_page(name, tmp_path):
    if STUDIES[name].needs == "data" and not DATA.exists():
        pytest.skip("the measurements are not here")
    run([name], tmp_path / "out", Inputs(SAMPLES, DATA, 2, tmp_path / "work"), STUDIES, quiet=True)
    for path in sorted((DOCS / "tables" / name).glob("*.csv")):
        found = pd.read_csv(tmp_path / "out" / "tables" / name / path.name)
        pd.testing.assert_frame_equal(found, pd.read_csv(path), rtol=1e-3, check_dtype=False)


def test_a_study_writes_its_tables_without_matplotlib(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    table = pd.DataFrame({"x": ["8 B"], "rcc": [0.9], "features": "H5"})
    chart = Chart("dots", table, "x", "rcc", "features", "RCC")
    found = Findings("Text.", {"order": table}, charts={"order": chart})
    study = Study("one", "One", "Text.", "nothing", {"The part": lambda _: found})
    run(["one"], tmp_path / "out", Inputs(), {"one": study}, quiet=True)
    assert "no figures" in capsys.readouterr().err
    assert f"Figures of commit {describe_commit()}" in (tmp_path / "out" / "one.md").read_text()
    assert (tmp_path / "out" / "tables" / "one" / "order.csv").exists()
    assert not (tmp_path / "out" / "figures").exists()
