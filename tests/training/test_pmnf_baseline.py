"""The scaling model beside the learners, on the same splits and from small to large."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.training import TimePredictor, repeated_splits
from toruscast.training.evaluation import PMNFBaseline, hold_out, problem_sizes
from toruscast.training.samples import build_samples


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    cases = []
    for grid in ((4, 4, 4), (4, 4, 8)):
        comm, torus = tc.patterns.halo_3d(grid, 2048, periodic=True), tc.Torus(grid)
        cases.append((comm, torus, tc.strategies.sample(comm, torus, n=8, seed=1)))
    path = tmp_path_factory.mktemp("samples") / "samples.parquet"
    return path, build_samples(cases, path)


def test_the_columns_are_message_size_nodes_and_bound(samples):
    _, table = samples
    columns = problem_sizes(table)
    assert columns["message_bytes"].tolist() == pytest.approx([2048] * 16)
    ratio = columns["nodes"].to_numpy()[8:] / columns["nodes"].to_numpy()[:8]
    assert ratio.tolist() == pytest.approx([2] * 8)


def test_it_finds_a_law_of_the_bound_and_extrapolates(samples):
    _, table = samples
    times = 1e-6 + 2 * table["lower_bound"]
    model = PMNFBaseline().fit(table, times)
    far = table.assign(lower_bound=8 * table["lower_bound"])
    np.testing.assert_allclose(model.predict(far), 1e-6 + 2 * far["lower_bound"], rtol=1e-6)
    with pytest.raises(InputError, match="lower_bound"):
        PMNFBaseline().fit(table.drop(columns="lower_bound"), times)


def test_it_stands_beside_learners(samples):
    _, table = samples
    learners = {"pmnf": PMNFBaseline(), "prior": TimePredictor("prior", n_estimators=20)}
    scores = repeated_splits(table, learners, n_splits=2)
    assert scores.groupby("predictor")["split"].count().to_dict() == {"pmnf": 2, "prior": 2}
    learners["prior"].set_params(calibration_folds=0)
    large = hold_out(table, learners, "size")
    assert large["predictor"].tolist() == ["pmnf", "prior", "release bound"]
    assert large["n_train"].tolist() == [8, 8, 0]
    assert large["n_test"].tolist() == [8, 8, 8]
    assert large["held_out"].unique().tolist() == ["halo-4x4x8 on 4x4x8"]
    assert (large["error"][:2] < 0.5).all()
    assert large["coverage"].isna().all()
    with pytest.raises(InputError, match="samples of several sizes"):
        hold_out(table[:8], learners, "size")


@pytest.mark.slow
def test_the_command_shows_both(samples):
    path, _ = samples
    given = ["evaluate", "--samples", str(path), "--baseline", "pmnf", "--features", "prior"]
    result = CliRunner().invoke(main, [*given, "--splits", "2", "--json", "-"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert [row["features"] for row in content["gain"]] == ["pmnf", "prior"]
    assert {row["predictor"] for row in content["small_to_large"]} == {
        "pmnf",
        "prior",
        "release bound",
    }
    shown = CliRunner().invoke(main, [*given, "--splits", "2", "-v"])
    assert "Small to large: 8 samples for training, and the 8 samples of halo-4x4x8" in shown.output
