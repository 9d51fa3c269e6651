"""Metrics of stored samples, and whether they add anything."""

import numpy as np
import pandas as pd
import pytest

import toruscast as tc
from toruscast import InputError
from toruscast._features import register_feature, unregister_feature
from toruscast.mapping import patterns, strategies
from toruscast.mapping.patterns import from_recipe
from toruscast.training import build_samples, read_samples
from toruscast.training.evaluation import MetricEvaluation, evaluate_metrics, rcc_gains
from toruscast.training.samples import add_metrics

HALO = patterns.halo_2d((8, 8), 4096, periodic=True)
RECIPE = {"pattern": "halo_2d", "grid": [8, 8], "nbytes": 4096, "periodic": True}
TORUS = tc.Torus((4, 4))
MAPPINGS = strategies.sample(HALO, TORUS, n=24, seed=3)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Samples as they come from a file, without the features that are added."""
    path = tmp_path_factory.mktemp("stored") / "samples.parquet"
    told = {"seed": 3, "workloads": {HALO.name: RECIPE}}
    names = ["hop_bytes", "max_dilation", "avg_bytes", "max_bytes"]
    build_samples([(HALO, TORUS, MAPPINGS)], path, features=names, provenance=told)
    return read_samples(path)


@pytest.fixture
def own():
    register_feature("own_metric")(lambda traffic: float(np.sort(traffic.link_bytes)[-3:].sum()))
    yield "own_metric"
    unregister_feature("own_metric")


def rng_table(n=48, blocks=2):
    """Times that follow what `hidden` tells and the set prior does not."""
    rng = np.random.default_rng(5)
    parts = []
    for block in range(blocks):
        columns = {
            name: rng.random(n)
            for name in ("max_dilation", "avg_bytes", "max_bytes", "hidden", "noise")
        }
        table = pd.DataFrame(columns)
        parts.append(
            table.assign(
                workload=f"w{block}",
                torus="4x4",
                mapping="m",
                key=[f"{block} {i}" for i in range(n)],
                time=1 + table["max_bytes"] + table["hidden"],
            )
        )
    return pd.concat(parts, ignore_index=True)


def test_metrics_of_stored_samples_are_those_of_their_mappings(stored, own):
    more = add_metrics(stored, [own, "sum_dilation"])
    direct = tc.features(HALO, TORUS, MAPPINGS, features=[own, "sum_dilation"])
    assert more["mapping"].tolist() == [mapping.name for mapping in MAPPINGS]
    for name in direct:
        assert more[name].tolist() == direct[name].tolist()
    assert (more["time"] == stored["time"]).all()


def test_a_graph_may_be_given_in_place_of_the_recipe(stored, own):
    bare = stored.copy()
    bare.attrs["provenance"] = {"seed": 3}
    more = add_metrics(bare, [own], workloads={HALO.name: HALO})
    assert more[own].tolist() == add_metrics(stored, [own])[own].tolist()
    with pytest.raises(InputError, match="unknown graph of samples"):
        add_metrics(bare, [own])


def test_another_graph_or_seed_is_noticed(stored, own):
    other = patterns.halo_2d((8, 8), 4096)
    with pytest.raises(InputError, match="differs from the stored mapping"):
        add_metrics(stored, [own], workloads={HALO.name: other})
    seeded = stored.copy()
    seeded.attrs["provenance"] = stored.attrs["provenance"] | {"seed": 4}
    with pytest.raises(InputError, match="differs from the stored mapping"):
        add_metrics(seeded, [own])


def test_large_blocks_are_thinned_evenly(stored, own):
    more = add_metrics(stored, [own], max_messages=1)
    assert len(more) == 24
    twice = pd.concat([stored, stored], ignore_index=True)
    twice.attrs = dict(stored.attrs)
    assert len(add_metrics(twice, [own], max_messages=1)) == 24
    assert len(add_metrics(twice, [own], max_messages=40 * HALO.n_edges)) == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mapping": "nonsense"}, "cannot be reproduced"),
        ({"torus": "nonsense"}, "unknown torus of samples"),
    ],
)
def test_unknown_names_are_told(stored, own, change, message):
    wrong = stored.assign(**change)
    wrong.attrs = dict(stored.attrs)
    with pytest.raises(InputError, match=message):
        add_metrics(wrong, [own])


def test_metrics_that_cannot_be_had(stored):
    with pytest.raises(InputError, match="needs a simulation"):
        add_metrics(stored, ["avg_buffer"])
    bare = stored.drop(columns=["hop_bytes", "max_dilation"])
    bare.attrs = dict(stored.attrs)
    with pytest.raises(InputError, match="no column of hops"):
        add_metrics(bare, ["sum_dilation"])


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"pattern": "os.system"}, "unknown pattern"),
        ({}, "unknown pattern"),
        ("halo_2d", "unknown pattern"),
        ({"pattern": "halo_2d", "grid": [4, 4]}, "bad arguments"),
        ({"pattern": "halo_2d", "grid": [4, 4], "nbytes": 8, "colour": 1}, "bad arguments"),
    ],
)
def test_bad_recipes_are_refused(recipe, message):
    with pytest.raises(InputError, match=message):
        from_recipe(recipe)


def test_what_tells_the_rest_of_the_time_adds_and_noise_does_not():
    table = rng_table()
    found = evaluate_metrics(table, ["hidden"], n_splits=3)
    assert found.describe_gain("prior").startswith("adds 0.")
    assert found.gains.loc["prior", "higher"] == 2
    noise = evaluate_metrics(table, ["noise"], n_splits=3)
    assert noise.gains.loc["prior", "low"] <= 0
    # Over blocks the gain is the mean of theirs.
    own = found.blocks[found.blocks["base"] == "prior"]
    assert found.gains.loc["prior", "gain"] == pytest.approx(own["gain"].mean())
    assert (own["alone"] > 0.5).all()


def test_interval_of_one_block_is_that_of_the_splits():
    table = rng_table(blocks=1)
    found = evaluate_metrics(table, ["hidden"], n_splits=3)
    block = found.blocks.iloc[0]
    assert found.gains.loc["prior", "low"] == block["low"] < block["gain"]
    scores = pd.DataFrame(
        {"predictor": list("aabb"), "split": [0, 1] * 2, "n_train": 2, "n_test": 1, "rcc": 0.5}
    )
    assert rcc_gains(scores).loc["b", "gain"] == 0


def test_nothing_to_judge_by():
    table = rng_table().assign(time=1.0)
    with pytest.raises(InputError, match="all times are equal"):
        evaluate_metrics(table, ["hidden"])
    with pytest.raises(InputError, match="columns missing"):
        evaluate_metrics(table, ["absent"])


def test_a_loss_is_called_one():
    row = {"rcc": 0.9, "gain": -0.02, "low": -0.03, "high": -0.01}
    found = MetricEvaluation(("m",), 10, "H5", pd.DataFrame(), pd.DataFrame([row], index=["H5"]))
    assert found.describe_gain("H5") == "lowers the RCC of H5 by 0.020: [-0.030, -0.010]"
