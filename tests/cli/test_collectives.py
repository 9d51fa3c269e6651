"""Collectives on the command line."""

import json

import pytest

from toruscast.cli import main


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code, *capsys.readouterr()


def test_simulate_takes_a_collective(capsys):
    words = ["--torus", "4x4x4", "--mapping", "identity", "--json", "-", "--quiet"]
    code, out, _ = run(capsys, "simulate", "--collective", "allreduce/ring:64kB", *words)
    assert code == 0
    content = json.loads(out)
    assert content["application"]["tasks"] == 64
    assert content["application"]["phases"] == ["allreduce/ring:64kB"]
    assert content["application"]["dependent"]
    # Every task sends 2 x 63/64 of the buffer.
    assert content["application"]["bytes"] == 2 * 63 * 64e3


def test_flows_take_a_collective_of_fewer_tasks(capsys):
    words = ["--tasks", "7", "--torus", "4x4", "--candidates", "2", "--json", "-", "--quiet"]
    code, out, _ = run(
        capsys, "simulate", "--flows", "--collective", "allreduce/rabenseifner:1MB", *words
    )
    assert code == 0
    assert json.loads(out)["application"]["tasks"] == 7


def test_algorithms_are_ranked(capsys):
    words = ["allreduce:1MB", "--torus", "4x4", "--json", "-", "--quiet"]
    code, out, _ = run(capsys, "collectives", *words)
    ranking = json.loads(out)["ranking"]
    assert code == 0
    times = [row["time"] for row in ranking if row["time"] is not None]
    assert times == sorted(times)
    assert all(row["time"] >= row["lower_bound"] for row in ranking if row["time"] is not None)
    assert {"allreduce/ring", "allreduce/bucket"} <= {row["algorithm"] for row in ranking}
