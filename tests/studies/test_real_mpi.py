"""A torus made of network namespaces: its routes, and real programs measured on it."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toruscast as tc
from studies.command import command
from studies.real_mpi import live, network
from toruscast.mapping import MappingProblem
from toruscast.routing.loads import link_loads


@pytest.mark.parametrize("shape", [(4, 4), (2, 2, 4), (8, 2), (3, 5)])
def test_the_routes_are_those_that_toruscast_knows(shape):
    torus = live.Setup(shape, ()).torus
    for source in range(torus.n_nodes):
        for target in set(range(torus.n_nodes)) - {source}:
            comm = tc.CommGraph(2, [0], [1], [1.0])
            loads = link_loads(MappingProblem(comm, torus), tc.TaskMapping([source, target], torus))
            at, used = source, []
            while at != target:
                d, side = network._first_link(torus, at, target)
                used.append(torus.link(at, d, 1 - 2 * side))
                at = int(torus.neighbors[at, 2 * d + side])
            assert sorted(used) == np.flatnonzero(loads).tolist()


def test_every_link_has_its_bandwidth():
    setup = live.Setup((2, 3), (), slow=True)
    lines = network._commands(setup.torus)
    shaped = [line for line in lines if " tbf rate " in line]
    assert len(shaped) == setup.torus.n_links
    assert sum("rate 1000000bit" in line for line in shaped) == 1
    assert sum("rate 5000000bit" in line for line in shaped) == len(shaped) - 1


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("seconds 1.25\n", "1.25"),
        ("\nLoop time of 1.9 on 16 procs for 25 steps\n", "1.9"),
        ("WALL   640   640  32     1    1    4    4     5.41     0.34    30.48 BYPASS", "5.41"),
    ],
)
def test_the_time_of_a_program_is_that_of_its_loop(said, seconds):
    assert live.SECONDS.search(said)[1] == seconds


def test_what_is_missing_is_told(monkeypatch):
    monkeypatch.setattr(network.shutil, "which", lambda name: None)
    assert "not found: ip, tc" in network.missing()


@pytest.mark.slow
@pytest.mark.skipif(network.missing() is not None, reason="no network namespaces or Open MPI")
def test_real_programs_are_traced_ranked_launched_and_measured(tmp_path):
    done = CliRunner().invoke(
        command,
        shlex.split(f"run real_mpi_live --live short --out {tmp_path} --quiet"),
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    gains = pd.read_csv(tmp_path / "tables" / "real_mpi_live" / "gains.csv").set_index("program")
    # The default order of the halo is far from the best: 55 % were gained on a busy machine.
    assert gains["searched"]["halo"] > 0.1
    assert "0 ranks of 16 were on other nodes" in (tmp_path / "real_mpi_live.md").read_text()
    figures = json.loads((tmp_path / "findings.json").read_text())["figures"]
    assert figures[0]["reached"] > 0.85
    assert network.missing() is None
