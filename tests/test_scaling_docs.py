"""The documentation page's examples run and print what they say."""

import doctest
from pathlib import Path


def test_page():
    page = Path(__file__).parents[1] / "docs" / "scaling.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0
