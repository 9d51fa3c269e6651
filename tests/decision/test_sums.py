"""Profiles are sums over a run: answers state this, and their intervals include the error."""

import json
import re
from pathlib import Path

import pytest

import toruscast as tc
from toruscast.answers.rank import describe_confidence
from toruscast.cli import main
from toruscast.decision.results import SUMMED_PROFILE_FACTORS
from toruscast.formats import read_workload
from toruscast.mapping import Torus, Workload, patterns, strategies
from toruscast.mapping.network import RULES

TORUS = Torus((4, 4)).with_network(unknown_rules=())
HALO = patterns.halo_2d((4, 4), 16384, periodic=True)
MAPPINGS = strategies.sample(HALO, TORUS, n=6, seed=1)
STUDY = Path(__file__).parents[2] / "studies" / "results" / "real_mpi.md"
MONITORED = "".join(
    "# POINT TO POINT\n"
    + "".join(f"E\t{a}\t{b}\t4096 bytes\t2 msgs sent\t0,0\n" for b in range(4) if a != b)
    + "# OSC\n# COLLECTIVES\nD\tMPI_COMM_WORLD\tprocs: 0,1,2,3\n"
    for a in range(4)
)


def test_the_reader_of_a_profile_knows_that_it_is_a_sum(tmp_path):
    (tmp_path / "app.prof").write_text(MONITORED)
    (tmp_path / "app.csv").write_text("0 1 4096\n1 0 4096\n")
    (tmp_path / "app.goal").write_text(
        "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n"
    )
    assert read_workload(tmp_path / "app.prof").summed
    assert not read_workload(tmp_path / "app.csv").summed
    assert not read_workload(tmp_path / "app.goal").summed


def test_intervals_of_a_sum_are_those_of_the_study():
    found = re.search(r"factor is ([0-9.]+) to ([0-9.]+)\.", STUDY.read_text())
    assert tuple(map(float, found.groups())) == SUMMED_PROFILE_FACTORS


@pytest.mark.parametrize("rules", [(), RULES])
def test_intervals_of_a_sum_are_as_wide_as_rounds_make_them(rules):
    torus = TORUS.with_network(unknown_rules=rules)
    alone, summed = (
        tc.rank(Workload([HALO], summed=value), torus, MAPPINGS, n_jobs=1).table
        for value in (False, True)
    )
    assert summed["time"].tolist() == alone["time"].tolist()
    assert (summed["low"] / alone["low"]).tolist() == pytest.approx([SUMMED_PROFILE_FACTORS[0]] * 6)
    assert (summed["high"] / alone["high"]).tolist() == pytest.approx(
        [SUMMED_PROFILE_FACTORS[1]] * 6
    )


def test_what_is_proved_is_proved_for_the_graph():
    found = tc.rank(Workload([HALO], summed=True), TORUS, MAPPINGS, n_jobs=1)
    assert found.verdict.kind == "proved"
    text = " ".join(describe_confidence(found))
    assert text.startswith("Proved in simulation for this graph: ")
    assert "all messages start at once" in text
    assert "toruscast trace" in text
    answer = tc.rank(HALO, TORUS, MAPPINGS, n_jobs=1)
    assert "sum" not in " ".join(describe_confidence(answer))


def test_the_command_says_that_a_profile_is_summed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.prof").write_text(MONITORED)
    line = "rank --comm app.prof --torus 2x2 --candidates 4 -v --json out.json"
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "summed over a run" in shown
    assert "all messages start at once" in " ".join(shown.split())
    assert json.loads((tmp_path / "out.json").read_text())["application"]["summed"] is True
