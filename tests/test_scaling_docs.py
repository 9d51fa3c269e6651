"""The documentation page's examples run and print what they say."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["scaling.md", "ms2.md"])
def test_page(name):
    page = Path(__file__).parents[1] / "docs" / name
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
