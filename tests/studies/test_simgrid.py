"""SimGrid beside our flows: routes and times of single messages, and its absence."""

import numpy as np
import pytest
from click.testing import CliRunner

import studies
from studies.command import command
from studies.run import _chosen
from studies.simgrid import engine, single
from studies.simgrid.networks import links_alone, variants
from studies.study import Inputs
from toruscast import InputError


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(engine.shutil, "which", lambda _: None)


def test_absence_is_told_in_a_line(no_compiler, tmp_path):
    result = CliRunner().invoke(command, ["run", "simgrid", "--out", str(tmp_path)])
    assert isinstance(result.exception, InputError) or result.exit_code == 2
    with pytest.raises(InputError, match="libsimgrid-dev"):
        _chosen(["simgrid"], Inputs(), studies.STUDIES)


def test_all_goes_on_without_it(no_compiler):
    chosen, left_out = _chosen(["all"], Inputs(), studies.STUDIES)
    assert "libsimgrid-dev" in left_out["simgrid"]
    assert [study.name for study in chosen] == ["sc13", "unseen", "small_large"]


def test_a_program_needs_a_folder():
    with pytest.raises(InputError, match="folder"):
        engine.Engine.from_torus(links_alone((4, 4, 4)), None)


def test_hosts_are_counted_with_the_first_coordinate_fastest(tmp_path):
    """A stand-in for the program says what it was told."""
    program = tmp_path / "flows"
    program.write_text("#!/bin/sh\ncut -d' ' -f2\n")
    program.chmod(0o755)
    torus = links_alone((2, 3, 4))
    there = engine.Engine(program, tmp_path / "none.xml", torus)
    nodes = np.arange(torus.n_nodes)
    x, y, z = torus.coords.T
    assert (there.times(nodes, nodes, np.ones(nodes.size)) == x + 2 * y + 6 * z).all()


def test_each_variant_adds_one_thing():
    tori = variants((4, 4, 4))
    bare = vars(tori["links alone"].network)
    changed = {
        name: {key for key, value in vars(torus.network).items() if value != bare[key]}
        for name, torus in tori.items()
    }
    assert changed.pop("links alone") == set()
    whole = changed.pop("whole machine")
    assert set().union(*changed.values()) == whole
    assert sum(map(len, changed.values())) == len(whole)


@pytest.mark.slow
@pytest.mark.skipif(engine.missing() is not None, reason="SimGrid is not installed")
def test_single_messages_take_the_same_time(tmp_path):
    found = single.run(Inputs(work=tmp_path))
    assert all(target.met for target in found.targets)
