"""The documentation page's examples run and print what they say, its commands exist."""

import doctest
import re
from pathlib import Path

from toruscast.cli.pmnf_compose import compose

PAGE = Path(__file__).parents[1] / "docs" / "composition.md"


def test_page():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0


def test_commands_of_the_page_exist():
    commands = re.findall(r"^toruscast pmnf compose ((?:.*\\\n)*.*)$", PAGE.read_text(), re.M)
    known = {option for parameter in compose.params for option in parameter.opts}
    assert len(commands) >= 4
    for command in commands:
        assert set(re.findall(r"--[\w-]+", command)) <= known
