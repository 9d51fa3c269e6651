"""Readers return a value or a one-line error for malformed files, in bounded time and memory."""

import csv
import random
import re
import warnings
from pathlib import Path

import pytest
from format_examples import example_bytes
from fuzz_check import Judge, amplified, claims, mutated, with_unknown
from fuzz_families import families

from toruscast.errors import InputError
from toruscast.formats import read_torus, read_workload
from toruscast.formats.registry import dialects
from toruscast.mapping import CommGraph, Workload
from toruscast.mapping.comm_graph import COLUMNS

FOUND = Path(__file__).parents[1] / "data" / "fuzz"
FAMILIES = families()
# More come with 'make fuzz', which looks at what the code does.
N_MUTATED = 25


@pytest.mark.parametrize("name", FAMILIES)
def test_hostile_files_are_read_or_refused(tmp_path, name):
    judge = Judge(FAMILIES[name], tmp_path)
    rng = random.Random(name)
    found = [path.read_bytes() for path in sorted((FOUND / name).glob("*"))]
    drawn = [mutated(rng.choice(FAMILIES[name].seeds), rng) for _ in range(N_MUTATED)]
    for data in (*FAMILIES[name].seeds, *found, *drawn):
        fault = judge.fault_of(data)
        assert fault is None, (fault, data[:500])


CLAIMING = [
    # Every fifth family; the others take long together.
    pytest.param(name, marks=() if number % 5 == 0 else pytest.mark.slow)
    for number, name in enumerate(FAMILIES)
    if name not in ("any", "words")
]


@pytest.mark.parametrize("name", CLAIMING)
def test_what_small_files_claim_takes_little(tmp_path, name):
    judge = Judge(FAMILIES[name], tmp_path)
    for seed in FAMILIES[name].seeds[:1]:
        for data in dict.fromkeys(claims(seed)):
            fault = judge.fault_of(data)
            assert fault is None, (fault, data[:300])


def test_the_judge_sees_what_must_not_happen(tmp_path, monkeypatch):
    from fuzz_families import Family

    monkeypatch.setattr("fuzz_check.MOST_SECONDS", 0.01)

    def judged(read):
        return Judge(Family(".txt", (), read), tmp_path).fault_of(b"x")

    outside = tmp_path.parent / "outside"
    assert "IndexError in test_fuzz.py" in judged(lambda path: [][0])
    assert "outside" in judged(lambda path: outside.write_text("x"))
    assert "slow" in judged(lambda path: sum(i * i for i in range(10**6)))
    assert judged(lambda path: path.read_bytes()) is None


def test_files_of_one_word_very_often_grow_to_the_size(tmp_path):
    assert {len(data) > 900 for data in amplified(b"0 1 5\n1 0 5\n", 1000)} == {True}


def test_what_was_found_has_a_test():
    with (FOUND / "found.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name, _, test = row["test"].partition("::")
            assert f"def {test}(" in (FOUND.parents[2] / name).read_text()


def test_the_page_holds_what_is_kept(monkeypatch):
    root = FOUND.parents[2]
    monkeypatch.syspath_prepend(str(root / "tools"))
    from reliability import page

    assert (root / "benchmarks" / "reliability.md").read_text() == page()


NOTHING = CommGraph(1, [], [], [])
# Free text in the examples, besides comments: names, titles and heads.
FREE = {
    "open-mpi": r"(?m)\t[0-9,]+$",
    "mpip": r"(?m)^@ .*\n?",
    "labelled-matrix": "(?m)^[^,]*,0,",
}
# Programs in text, whose names and attributes are their compilers'.
PROGRAMS = {"hlo", "sst"}
EXAMPLES = {
    dialect.name: example_bytes(dialect)
    for dialect in (*dialects("graph"), *dialects("torus"))
    if dialect.example and isinstance(dialect.example, str) and dialect.name not in PROGRAMS
}
TORI = {dialect.name for dialect in dialects("torus")}


def content(path, dialect):
    """Return the content that is read from a file, and the notes of the reader on the rest."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read_torus(path, format=dialect) if dialect in TORI else None
        workload = read_workload(path, format=dialect) if found is None else Workload([NOTHING])
    phases = [
        (phase.n_tasks, phase.grid, *(getattr(phase, name).tolist() for name in COLUMNS))
        for phase in workload
    ]
    return found, phases, workload.omitted, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("dialect", EXAMPLES)
def test_no_unknown_word_vanishes(tmp_path, dialect):
    free = re.compile(f"{FREE.get(dialect, '$^')}|(?m:[#%](?<!\\S[#%]).*)")
    path = tmp_path / "a"
    path.write_bytes(EXAMPLES[dialect])
    plain = content(path, dialect)
    for data in with_unknown(EXAMPLES[dialect]):
        path.write_bytes(data)
        try:
            found = content(path, dialect)
        except InputError:
            continue
        same_words = free.sub("", data.decode()) == free.sub("", EXAMPLES[dialect].decode())
        assert found != plain or same_words, data.decode()
