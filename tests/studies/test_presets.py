"""Presets of accelerators against public measurements of real slices."""

import numpy as np
import pytest

from studies import presets

ROWS = [row for row in presets.measurements().to_dict("records") if row["modelled"]]


@pytest.fixture(scope="module")
def beside():
    return [presets.compare(row) for row in ROWS]


def test_every_public_number_is_met_within_15_percent(beside):
    missed = [(each.row["torus"], each.row["what"], each.error) for each in beside]
    assert [each for each in missed if abs(each[-1]) > 0.15] == []


def test_the_median_error_is_below_6_percent(beside):
    assert np.median([abs(each.error) for each in beside]) < 0.06


def test_the_page_names_each_source(beside):
    page = presets.page()
    assert all(row["source"] in page for row in presets.measurements().to_dict("records"))
