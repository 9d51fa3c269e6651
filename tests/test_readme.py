"""The README's Python runs as it stands."""

import re
from pathlib import Path

import pytest

from toruscast.features import FEATURES, unregister

README = Path(__file__).parents[1] / "README.md"


def test_python_examples_run(capsys):
    text = README.read_text()
    programs = re.findall(r"```python\n(.*?)```", text, re.S)
    shown = "".join(re.findall(r"```python\n[^`]*```\n\n```text\n(.*?)```", text, re.S))
    try:
        exec(compile("".join(programs), str(README), "exec"), {})
        assert "busiest_share" in FEATURES
    finally:
        unregister("busiest_share")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize("command", ["rank", "features", "simulate", "train", "evaluate"])
def test_commands_of_the_readme_exist(command):
    from toruscast.cli import main

    lines = re.findall(rf"^toruscast {command} (.*)$", README.read_text(), re.M)
    known = {option for p in main.get_command(None, command).params for option in p.opts}
    assert lines
    for line in lines:
        assert set(re.findall(r"--[\w-]+", line)) <= known
