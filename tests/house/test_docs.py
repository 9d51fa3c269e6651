"""What the README and the pages show runs, and the commands that they name exist."""

import doctest
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from documented import agree, not_given

import toruscast as tc
from toruscast._features import FEATURES, unregister_feature
from toruscast.cli import main
from toruscast.mapping.strategies import STRATEGIES

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
PAGES = sorted(ROOT.glob("docs/**/*.md"))
GUIDE = sorted([*ROOT.glob("docs/guide/*.md"), *ROOT.glob("docs/tutorials/*.md")])
BLOCK = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```', re.S | re.M)
# Words of a page, and of all pages that are written by hand.
LONGEST_PAGE, MOST_WORDS = 4000, 25_000
# Pages with examples, and how many there are at least.
EXAMPLES = {"codesign": 10, "composition": 10, "interconnect": 15, "pmnf": 5}
COMMANDS = [
    (page.name, line)
    for page in (README, CONTRIBUTING, *PAGES)
    for block in re.findall(r"```sh\n(.*?)```|((?:^    .*\n)+)", page.read_text(), re.S | re.M)
    for line in "".join(block).replace("\\\n", " ").splitlines()
    if line.strip().startswith("toruscast ")
]


@pytest.mark.parametrize(
    ("given", "agrees"),
    [
        ("swap-5 takes  102 us, 59 % less, 12 runs", True),
        ("swap-5 takes 110 us, 60 % less, 12 runs", False),
        ("swap-6 takes 100 us, 60 % less, 12 runs", False),
        ("swap-5 takes 100 us, 60 % more, 12 runs", False),
        ("swap-5 takes 100 us, 60 % less, 13 runs", False),
    ],
)
def test_outputs_agree_in_words_and_nearly_in_numbers(given, agrees):
    assert agree("swap-5 takes 100 us, 60 % less, 12 runs", given) == agrees


def run(line):
    """Run a command of a page, and want it to succeed; what its plugin registers is forgotten."""
    known = set(FEATURES)
    try:
        with pytest.raises(SystemExit) as ended:
            main.main(args=shlex.split(line)[1:])
    finally:
        for name in set(FEATURES) - known:
            unregister_feature(name)
    assert ended.value.code == 0, line


FIRST = [README, *ROOT.glob("docs/tutorials/*.md")]
WALK_THROUGHS = [
    pytest.param(page, marks=() if page in FIRST else pytest.mark.slow, id=page.stem)
    for page in (README, *GUIDE)
]


@pytest.mark.filterwarnings("ignore:most mappings are outside")
@pytest.mark.parametrize("page", WALK_THROUGHS)
def test_walk_throughs_can_be_repeated(page, tmp_path, monkeypatch, capsys):
    """Blocks run in order; one behind which a file is named is that file."""
    monkeypatch.chdir(tmp_path)
    # The reader's environment is active: scripts find this Python.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    names, out = {}, ""
    for kind, file, body in BLOCK.findall(page.read_text()):
        if file:
            Path(file).write_text(body)
        elif kind == "toml":
            tomllib.loads(body)
        elif kind == "text":
            assert not_given(body, out) == []
        else:
            if kind == "python":
                exec(compile(body, str(page), "exec"), names)
            else:
                for line in body.splitlines():
                    run(line)
            out = capsys.readouterr().out


def test_pages_are_short():
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 700
    words = {str(page.relative_to(ROOT)): len(page.read_text().split()) for page in PAGES}
    assert {name: n for name, n in words.items() if n > LONGEST_PAGE} == {}
    generated = ("docs/reference/command", "docs/reference/formats", "docs/reference/machines")
    assert sum(n for name, n in words.items() if not name.startswith(generated)) <= MOST_WORDS


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_files_that_contributing_names_exist():
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", CONTRIBUTING.read_text())
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


class Agreeing(doctest.OutputChecker):
    """Takes an output for right whose numbers are right within a tolerance."""

    def check_output(self, want, got, flags):
        return agree(want, got)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_a_page_run(name):
    page = ROOT / "docs/scaling" / f"{name}.md"
    names = {"__name__": "__main__"}
    examples = doctest.DocTestParser().get_doctest(page.read_text(), names, name, str(page), 0)
    result = doctest.DocTestRunner(Agreeing()).run(examples)
    assert result.attempted > EXAMPLES[name]
    assert result.failed == 0


def test_no_page_with_examples_is_left_out():
    assert {page.stem for page in PAGES if ">>>" in page.read_text()} == set(EXAMPLES)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=str)
def test_commands_of_the_pages_exist(page, line):
    words, command = shlex.split(line.partition(" -- ")[0])[1:], main
    while hasattr(command, "list_commands"):
        word = words.pop(0)
        command = command.get_command(None, word)
        assert command is not None, word
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_the_first_command_of_the_site_needs_no_more_than_make_rank_installs():
    first = re.search(r"```sh\n(.*?)```", (ROOT / "docs/index.md").read_text(), re.S)[1]
    assert "--report" in first
    recipe = re.search(
        r"^\.venv/installed:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M
    )
    assert "--editable .\n" in recipe[1]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = {"jinja2", "rich", "click"}
    assert needed <= {re.match(r"[\w-]+", each)[0] for each in wanted}


def test_every_command_stands_in_the_readme():
    named = set(re.findall(r"`toruscast ([a-z]+)", README.read_text()))
    assert set(main.list_commands(None)) <= named


def test_pages_of_the_program_are_current(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from pages import DOCS, OWN, pages

    made = pages()
    kept = {name: (DOCS / name).read_text() for name in made if (DOCS / name).exists()}
    assert [name for name in made if kept.get(name) != made[name]] == [], "make pages renews it"
    there = {str(path.relative_to(DOCS)) for folder in OWN for path in (DOCS / folder).iterdir()}
    assert there <= {*made}


def test_every_public_name_has_a_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from api_page import entries

    shown = {each.name for each in entries()}
    public = {name for name in tc.__all__ if callable(getattr(tc, name))}
    assert public <= shown
    assert len({each.page.lower() for each in entries()}) == len(entries())
    assert [each.name for each in entries() if not each.summary] == []


def test_every_strategy_has_its_thumbnail(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from draw_strategies import FOLDER, named, thumbnail

    kinds = named()
    assert {*kinds} == {path.stem for path in FOLDER.iterdir()} == {*STRATEGIES}
    for kind in kinds:
        drawn = (FOLDER / f"{kind}.svg").read_text()
        assert drawn == thumbnail(kind), "make figures renews it"
