"""Numbers called published, against the tables transcribed from the papers."""

import re
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from studies.sc13 import published
from studies.sc13.plan import SMALL
from toruscast import datasets
from toruscast.scaling import application, application_names, read_jobs


@pytest.fixture
def printed(shared_data):
    """The sections of the transcription by the first word of their heading."""
    text = (shared_data / "sources" / "README.md").read_text(encoding="utf-8")
    return {part.split()[0]: part for part in text.split("\n## ")[1:]}


def test_elapsed_times_of_ls_dyna(printed):
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", printed["Lin"], re.M)
    columns = [("GigE", "SP"), ("HF2", "SP"), ("GigE", "DP"), ("HF2", "DP")]
    known = {
        (int(tasks), *column): float(seconds)
        for tasks, *row in rows
        for column, seconds in zip(columns, row, strict=True)
    }
    jobs = read_jobs(datasets.table_path("lsdyna-interconnect"))
    shipped = {
        (int(run.tasks), run.interconnect, run.precision): run.elapsed for run in jobs.itertuples()
    }
    assert len(known) == 24
    # One processor sends nothing, so that its run is shipped once.
    assert {key: known[key] for key in shipped} == shipped
    assert known.keys() - shipped.keys() == {(1, "GigE", "SP"), (1, "GigE", "DP")}


def test_models_and_errors_of_composed_programs(printed):
    text = printed["Composition"].replace("\n", " ")
    table = pd.read_csv(datasets.table_path("composition-published"), comment="#", dtype=str)
    two, four = (table[table["table"] == number] for number in "24")
    coefficients = [whole.split()[0].lstrip("0") for whole in two["whole"]]
    errors = [error.lstrip("0") for error in two["error"]]
    assert f"{'/'.join(coefficients[:4])}; printed {'/'.join(errors[:4])}." in text.replace(
        "0.", "."
    )
    for program, coefficient, error in zip(two["program"], coefficients, errors, strict=True):
        if program.startswith("pipe"):
            name = re.escape(program.replace(" ", ""))
            assert re.search(rf"{name} \S+( n,)? {coefficient}( n)?, {error}\b", text)
    for pool, pipe in zip(four["whole"][::2], four["whole"][1::2], strict=True):
        assert "/".join(whole.split()[0].lstrip("0") for whole in (pool, pipe)) in text
    assert four["error"].isna().all()


# How the transcription writes what formulas of ours say.
WRITTEN = [
    (r" \* ", " "),
    (r"\*\*0", "^"),
    (r"\*\*", "^"),
    (r"log2?\((\w)\)", r"log \1"),
    (r"allreduce", "Allreduce"),
    (r"bcast", "Bcast"),
    (r"alltoall", "Alltoall"),
    (r"n log n n", "n log n n"),
]


def test_models_as_printed(printed):
    lines = {
        line.split(":")[0].lstrip("- ").lower(): line
        for line in printed["Co-design,"].splitlines()
        if line.startswith("- ")
    }
    for name in application_names():
        for key, model in application(name, printed=True).requirements.items():
            text = model.text
            for pattern, new in WRITTEN:
                text = re.sub(pattern, new, text)
            if key != "stack_distance":
                assert all(term in lines[name] for term in text.split(" + ")), (name, key, text)


def test_results_of_the_first_paper(printed):
    text = printed["Jain"].replace("0.", ".")
    tables = (published.SINGLE_RCC, published.HYBRID_RCC, published.HYBRID_R2)
    values = {value for table in tables for value in table.values()}
    values |= {published.PF3D_MAX_BYTES_RCC, published.HIGHEST_SUB_A2A_RCC, published.TRANSFER_RCC}
    values -= {1 - published.WRONG_2D_HALO / published.TEST_PAIRS}
    for value in values:
        digits = f"{value:.3f}".rstrip("0").lstrip("0") if value < 1 else f"{value:.2f}"
        assert re.search(rf"(?<![\d.]){re.escape(digits)}(?!\d)", text), value
    pairs = published.WRONG_2D_HALO, published.MIXED_WRONG_PAIRS
    assert all(f"{wrong} pairs wrong" in text for wrong in pairs)
    assert f"about {published.TRANSFER_WRONG:,} of {published.TRANSFER_PAIRS:,} pairs wrong" in text
    assert f"up to {published.LARGE_HALO_GAIN:.0%} better".replace("%", " %") in text
    # No result is printed for these; see the first line of the section.
    absent = {("2D Halo", "8 B"), ("2D Halo", "512 B"), ("3D Halo", "8 B")}
    assert not absent & {case[:2] for table in tables for case in table}
    assert "training and test sets hold all benchmarks with 16 KB and 4 MB" in text


ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "docs" / "studies"


def numbers(value):
    """All numbers in a value of `published`, tables included."""
    if isinstance(value, dict):
        return {number for each in value.values() for number in numbers(each)}
    if isinstance(value, tuple):
        return {number for each in value for number in numbers(each)}
    return {f"{value:.4g}"} if isinstance(value, int | float) else set()


def test_only_printed_results_are_called_published_in_figures():
    printed = numbers(vars(published))
    for path in STUDIES.glob("tables/*/figures.csv"):
        shown = pd.read_csv(path)["published"].dropna()
        if path.parent.name != "sc13":
            assert shown.empty, path
    shown = pd.read_csv(STUDIES / "tables" / "sc13" / "figures.csv")["published"].dropna()
    assert set(shown.map("{:.4g}".format)) <= printed


def test_only_printed_results_are_called_published_on_the_page():
    page = (ROOT / "studies" / "results" / "sc13.md").read_text(encoding="utf-8")
    part = page[page.index("| benchmark | size |") :].split("\n\n")[0]
    rows = "\n".join(line.strip("| ") for line in part.splitlines() if "---" not in line)
    table = pd.read_csv(StringIO(rows), sep=r" *\| *", engine="python", na_values="-")
    columns = {"published": published.SINGLE_RCC, "published hybrid": published.HYBRID_RCC}
    for name, printed in columns.items():
        for benchmark, size, value in table[["benchmark", "size", name]].itertuples(index=False):
            expected = printed.get((benchmark, size, SMALL), float("nan"))
            assert value == pytest.approx(expected, abs=5e-5, nan_ok=True), (benchmark, size)
