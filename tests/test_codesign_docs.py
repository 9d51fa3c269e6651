"""The pages' examples run and print what they say."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["interconnect", "codesign"])
def test_page(name):
    page = Path(__file__).parents[1] / "docs" / f"{name}.md"
    options = doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(page), module_relative=False, optionflags=options)
    assert result.attempted > 20
    assert result.failed == 0
