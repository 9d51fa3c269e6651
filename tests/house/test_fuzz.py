"""Hostile files in every reader: one line or a value, within seconds and a bound of memory."""

import csv
import random
from pathlib import Path

import pytest
from fuzz_check import Judge, amplified, mutated
from fuzz_families import families

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
