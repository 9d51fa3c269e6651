"""Explanations of a mapping, compared with its known construction."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from toruscast._search.explain import explain
from toruscast.cli.app import main
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload, strategies
from toruscast.mapping.patterns import halo_2d
from toruscast.routing import link_loads
from toruscast.simulation import simulate


def test_pairs_of_a_link_add_up_to_its_load():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4)).with_network(unknown_rules=())
    for routing in ("deterministic", "adaptive"):
        mapping = strategies.make("random", halo, torus)
        why = explain(halo, torus, mapping, routing=routing, top=64)
        load = link_loads(MappingProblem(halo, torus, routing), mapping)
        sums = why.pairs.groupby("link")["nbytes"].sum()
        np.testing.assert_allclose(sums, load[sums.index], rtol=1e-3)
        assert (sums.index.isin(why.table.index)).all()
        np.testing.assert_allclose(why.pairs.groupby("link")["share"].sum(), 1, rtol=1e-3)


def test_the_phase_that_heats_a_link_is_named():
    little, much = CommGraph(4, [2], [3], [100]), CommGraph(4, [0], [1], [50_000])
    why = explain(Workload([little, much]), Torus((4,)), TaskMapping([0, 2, 1, 3], 4))
    first = why.pairs.iloc[0]
    assert (first["phase"], first["src"], first["dst"], first["hops"]) == (1, 0, 1, 2)
    assert first["against"] == 1


def test_the_exchange_it_names_gains_what_it_says():
    line = CommGraph(8, range(7), range(1, 8), [50_000] * 7)
    torus = Torus((8,)).with_network(unknown_rules=())
    node = np.arange(8)
    node[[1, 5]] = node[[5, 1]]
    why = explain(line, torus, TaskMapping(node, torus))
    best = why.exchanges.iloc[0]
    assert sorted((*best["block"], *best["other"])) == [1, 5]
    assert best["time"] == simulate(line, torus, TaskMapping(range(8), torus)).time
    assert best["gain"] == 1 - best["time"] / why.time > 0


def test_a_mapping_beside_itself_differs_in_nothing():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4)).with_network(unknown_rules=())
    mapping = strategies.make("random", halo, torus)
    why = explain(halo, torus, mapping, mapping)
    assert (why.weights["effect"] == 0).all()
    assert (why.table["nbytes"] == why.table["against"]).all()


def test_the_command_writes_all_of_it(tmp_path):
    words = ["explain", "--comm", "lammps-lj-64", "--torus", "4x4x4", "--mapping", "random"]
    result = CliRunner().invoke(main, [*words, "--json", str(tmp_path / "why.json")])
    assert result.exit_code == 0, result.output
    assert "Task pairs on the busiest links" in result.output
    found = json.loads((tmp_path / "why.json").read_text())
    assert {"links", "pairs", "weights", "exchanges", "bounds"} <= found.keys()


def test_what_does_not_fit_is_refused():
    halo, torus = halo_2d((4, 4), 2048), Torus((4, 4)).with_network(unknown_rules=())
    with pytest.raises(InputError):
        explain(halo, torus, TaskMapping([0, 1], 16))
    with pytest.raises(InputError):
        explain(halo, torus, strategies.make("identity", halo, torus), top=0)
