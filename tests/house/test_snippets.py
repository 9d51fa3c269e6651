"""Guessed calls of the public interface run unchanged or name the fix in their message."""

import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import toruscast as tc

GRAPH = nx.grid_graph((4, 4), periodic=True)
nx.set_edge_attributes(GRAPH, 65536, "weight")
COMM = tc.patterns.halo_2d((4, 4), 65536, periodic=True)


def permutations(n):
    rng = np.random.default_rng(0)
    return {f"random{i}": rng.permutation(16) for i in range(n)}


def test_rank_my_graph_and_permutations():
    comm = tc.from_networkx(GRAPH, weight="weight")
    ranking = tc.rank(comm, "4x4", {"mine": np.arange(16), **permutations(5)}, seed=0)
    assert ranking.best.name == "mine"
    assert np.array_equal(ranking.best, np.arange(16))
    assert ranking.table["mapping"].iloc[0] == "mine"


def test_rank_tables():
    edges = nx.to_pandas_edgelist(nx.convert_node_labels_to_integers(GRAPH).to_directed())
    ranking = tc.rank(edges, (4, 4), pd.DataFrame(permutations(3)))
    assert ranking.to_dict()["ranking"][0]["mapping"] == ranking.best.name


def test_a_torus_with_failed_nodes_and_links():
    torus = tc.torus("4x5").without(nodes=[3])
    ranking = tc.rank(COMM, torus, tc.strategies.sample(COMM, torus, n=4))
    assert 3 not in np.asarray(ranking.best)
    broken = torus.without(links=["(0,0) +X"])
    assert broken.n_existing_links == torus.n_existing_links - 1
    with pytest.raises(tc.InputError, match="a mapping whose routes avoid it"):
        tc.rank(COMM, broken, tc.strategies.make("identity", COMM, broken))


def test_search_from_a_problem():
    problem = tc.MappingProblem(COMM, "4x4")
    result = tc.search(problem, n_sweeps=1, seed=np.random.default_rng(1))
    assert result.best.n_tasks == len(result.best) == 16
    with pytest.raises(tc.InputError, match=r"rank\(problem, mappings="):
        tc.rank(problem, [result.best])
    assert tc.rank(problem, mappings=[result.best]).best[0] == result.best[0]


def test_features_of_many_mappings():
    mappings = tc.strategies.sample(COMM, "4x4", n=20, seed=7)
    table = tc.features(COMM, "4x4", mappings, features=["max_bytes", "hop_bytes"])
    assert table.shape == (20, 2)
    with pytest.raises(tc.InputError, match="max_byte, expected max_bytes"):
        tc.features(COMM, "4x4", mappings, features=["max_byte"])


@pytest.mark.slow
def test_trees_trained_on_my_runs_and_used_on_a_larger_torus(tmp_path):
    mappings = tc.strategies.sample(COMM, "4x4", n=12)
    times = {each.name: 2 * tc.simulate(COMM, "4x4", each).time + 1e-5 for each in mappings}
    model = tc.learn_runs(COMM, "4x4", mappings, times).model
    tc.save_predictor(model, tmp_path / "mine.npz")
    large = tc.patterns.halo_2d((8, 4), 65536, periodic=True)
    ranking = tc.rank(
        large, "8x4", tc.strategies.sample(large, "8x4", n=6), model=str(tmp_path / "mine.npz")
    )
    assert (ranking.table["time"] > 1e-5).all()


def test_my_own_metric():
    @tc.register_feature("busiest_share")
    def busiest_share(traffic):
        return traffic.link_bytes.max() / traffic.link_bytes.sum()

    try:
        found = tc.evaluate(COMM, "4x4", metrics=["busiest_share"], n=20, n_splits=2)
        assert found.to_dict()["metrics"] == ["busiest_share"]
        sets = {"known": ["max_bytes"], "mine": ["max_bytes", "busiest_share"]}
        found = tc.evaluate(COMM, "4x4", features=sets, n=20, n_splits=5)
        assert found.best in sets
        assert found.table.loc["mine", "gain_low"] <= found.table.loc["mine", "gain_high"]
    finally:
        tc.unregister_feature("busiest_share")


def test_pmnf_fit_of_a_table():
    table = pd.DataFrame({"p": [4, 8, 16, 32, 64], "time": [11.0, 19.0, 35.0, 67.0, 131.0]})
    model = tc.scaling.PMNFRegressor().fit(table[["p"]], table["time"])
    assert model.predict(pd.DataFrame({"p": [128]}))[0] == pytest.approx(259, rel=1e-3)
    with pytest.raises(AttributeError, match="did you mean"):
        tc.pmnf(table)


def test_a_mesh_for_jax():
    layouts = tc.mesh("tpu_v5e:4x4", {"data": 4, "model": 4}, {"model": "allreduce:64MB"})
    assert layouts.ids.shape == (4, 4)
    assert "jax.sharding.Mesh" in layouts.jax_program()


def test_simulate_and_plot(tmp_path, monkeypatch):
    # Importing it fails.
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    simulation = tc.simulate(COMM, "4x4", np.arange(16), progress=lambda stage, done, total: None)
    figure = simulation.plot()
    assert figure._repr_svg_().startswith("<svg")
    figure.save(tmp_path / "timeline.svg")
    assert (tmp_path / "timeline.svg").read_text().startswith("<svg")
    with pytest.raises(tc.InputError, match=r"expected \.svg or \.png or \.pdf"):
        figure.save(tmp_path / "timeline.jpg")


def test_write_the_file_of_a_launcher(tmp_path):
    best = tc.search(COMM, "4x4", n_sweeps=1).best
    file = tmp_path / "MPICH_RANK_ORDER"
    tc.write_mapping(best, file)
    assert np.array_equal(tc.read_mapping(file, "4x4", format="rank-order"), best)
    tc.write_mapping(np.arange(16), tmp_path / "ranks.txt", format="rank-order", torus="4x4")
    with pytest.raises(tc.InputError, match="rank-order"):
        tc.write_mapping(best, file, format="rank_order")
