"""What `benchmarks/results` says of real measurements and of ms2's models, fitted anew."""

import numpy as np
import pandas as pd
import pytest
from benchmark_modules import BENCHMARKS, load

pmnf = load("pmnf")
pmnf_inner = load("pmnf_inner")
ms2 = load("ms2")

OURS = {"toruscast": pmnf.fit_toruscast}
RESULTS = BENCHMARKS / "results"


def stored(file):
    """Rows of a file by fitter, data and what was held out."""
    return pd.read_csv(RESULTS / file).set_index(["fitter", "data", "held_out"])


def check(rows, file, columns):
    """Compare figures of ours with those stored."""
    held = stored(file)
    for row in rows:
        place = ("toruscast", row["data"], row["held_out"])
        found = [float(row[name]) for name in columns]
        np.testing.assert_allclose(found, held.loc[place, columns].astype(float), rtol=0.02)


@pytest.fixture
def measured(shared_data):
    return shared_data / "extrap"


@pytest.mark.slow
def test_largest_values_held_out(measured):
    check(pmnf.held_out(OURS, measured), "pmnf-real.csv", ["median_error", "p90_error"])


def test_values_held_out_inside_the_range(measured):
    check(pmnf_inner.errors(OURS, measured), "pmnf-real-inner.csv", ["median_error"])


def test_as_many_regions_are_near_at_the_corner_as_by_extra_p(measured, tmp_path):
    columns = [f"within_{n}" for n in (5, 10, 15, 20)]
    (ours,) = rows = pmnf.corner(OURS, measured, tmp_path)
    check(rows, "pmnf-real.csv", columns)
    theirs = stored("pmnf-real.csv").loc["extrap", ours["data"], ours["held_out"]]
    assert all(float(ours[name]) >= theirs[name] for name in columns)


@pytest.mark.slow
def test_published_models_come_back_as_well():
    rows = pd.DataFrame(ms2.measure(None, draws=20, seed=1))
    place, figures = ["model", "variation_pct", "fitter"], ["exact", "active", "error_pct"]
    held = pd.read_csv(RESULTS / "ms2.csv").set_index(place)
    found = rows.set_index(place)[figures]
    np.testing.assert_allclose(found, held.loc[found.index, figures], rtol=0.02, atol=1e-9)
