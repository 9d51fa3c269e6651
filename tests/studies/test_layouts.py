"""Pairs of layouts with public times: which is faster, by the model and as published."""

import pytest

from studies import layouts


@pytest.fixture(scope="module")
def pairs():
    return [layouts.compare(row) for row in layouts.rows()]


@pytest.mark.slow
def test_the_faster_layout_is_named_in_nine_of_ten(pairs):
    signs = [pair.sign for pair in pairs]
    assert len(signs) >= 10
    assert signs.count("right") >= 0.9 * (len(signs) - signs.count("depends"))
    assert signs.count("depends") <= 1


@pytest.mark.slow
def test_what_is_not_right_is_explained(pairs):
    assert all("why" in pair.row for pair in pairs if pair.sign != "right")


def test_the_page_names_each_source(pairs):
    page = layouts.page(pairs)
    for pair in pairs:
        assert pair.row["source"] in page
        assert pair.row["traffic"] in page
