"""The list of machines on the command line."""

import json

import pytest

from toruscast.cli import main
from toruscast.mapping import machines


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code, *capsys.readouterr()


def test_machines_as_json(capsys):
    code, out, _ = run(capsys, "machines", "--json", "-")
    assert code == 0
    rows = json.loads(out)["machines"]
    assert [row["machine"] for row in rows] == list(machines.names())
    assert all(
        machines.torus_from_text(row["torus"]) == machines.torus_from_text(row["machine"])
        for row in rows
    )


def test_a_twisted_slice_is_reported_in_one_line(capsys):
    words = ["features", "--comm", "lammps-lj-64", "--candidates", "1", "--quiet"]
    _, _, err = run(capsys, *words, "--torus", "tpu_v4:4x4x8")
    assert (
        err == "toruscast: tpu_v4:4x4x8 is a twisted torus; tpu_v4:4x4x8:untwisted is a plain one\n"
    )
    for text in ("tpu_v4:4x4x8:untwisted", "tpu_v4:4x4x8:twisted", "tpu_v4:4x4x4"):
        assert run(capsys, *words, "--torus", text)[2] == ""


def test_a_narrow_terminal_shows_what_is_typed(monkeypatch, capsys):
    monkeypatch.setattr("toruscast.cli.output.PLAIN_WIDTH", 40)
    _, shown, _ = run(capsys, "machines")
    assert "bluegene_q:4x4x4x4x2" in shown
    assert "\nbluegene_q " in shown
