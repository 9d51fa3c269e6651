"""What the README and the pages show runs, and the commands that they name exist."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from toruscast.cli import main
from toruscast.features import FEATURES, unregister

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
PAGES = sorted(ROOT.glob("docs/**/*.md"))
# Pages with examples, and how many there are at least.
EXAMPLES = {"codesign": 20, "composition": 15, "interconnect": 20, "ms2": 5, "pmnf": 5}
COMMANDS = [
    (page.name, line)
    for page in (README, CONTRIBUTING, *PAGES)
    for block in re.findall(r"```sh\n(.*?)```|((?:^    .*\n)+)", page.read_text(), re.S | re.M)
    for line in "".join(block).replace("\\\n", " ").splitlines()
    if line.strip().startswith("toruscast ")
]


def test_python_examples_of_the_readme_run(capsys):
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_a_page_run(name):
    page = ROOT / "docs/scaling" / f"{name}.md"
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > EXAMPLES[name]
    assert result.failed == 0


def test_no_page_with_examples_is_left_out():
    assert {page.stem for page in PAGES if ">>>" in page.read_text()} == set(EXAMPLES)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=str)
def test_commands_of_the_pages_exist(page, line):
    words, command = shlex.split(line)[1:], main
    while hasattr(command, "list_commands"):
        word = words.pop(0)
        command = command.get_command(None, word)
        assert command is not None, word
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_every_command_stands_in_a_page():
    named = {line.split()[1] for _, line in COMMANDS}
    assert named == set(main.list_commands(None))


def test_the_page_of_machines_is_that_of_the_presets(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from machines_page import page

    assert (ROOT / "docs/reference/machines.md").read_text() == page()
