"""Make the reference pages of the command from the definitions of its options."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import click

from toruscast.cli import main
from toruscast.cli.options import GROUPS

HEAD = """# The command

This page lists the sub-commands of `toruscast`, and the options that several of them have in
common. `make pages` writes this page from the program. `toruscast COMMAND --help` gives the same
text with examples.

The exit status is 0 for success, 1 if the command failed, 2 if the input is wrong, and 130 if the
command was interrupted (Ctrl-C, SIGTERM, SIGHUP). The file name `-` means stdin or stdout.

| command | what it does |
|---|---|
"""
SHARED_HEAD = """
## Options of several commands

The page of each command lists the names of the common options that it has.
"""
TABLE = "\n*{}*\n\n| option | what it does |\n|---|---|\n"
# Options with the same help in at least this many commands are described on a shared page.
SHARED = 4


class Option(NamedTuple):
    """An option: its form on the command line, its help, and its group."""

    typed: str
    text: str
    group: str


def pages() -> dict[str, str]:
    """Return the pages by path in docs: a list of commands, and a page for each command."""
    commands = dict(_commands(main, ""))
    uses = Counter(option for command in commands.values() for option in _options(command))
    shared = [option for option, times in uses.items() if times >= SHARED]
    rows, parts = "", dict[str, str]()
    for name, command in commands.items():
        word = name.split()[0]
        anchor = "" if name == word else f"#{name.replace(' ', '-')}"
        rows += f"| [`{name}`](command/{word}.md{anchor}) | {_summary(command)} |\n"
        if name != word:
            parts.setdefault(word, f"# toruscast {word}\n")
        parts[word] = parts.get(word, "") + _section(name, command, shared)
    written = {f"reference/command/{word}.md": text for word, text in parts.items()}
    return {"reference/command.md": HEAD + rows + SHARED_HEAD + _tables(shared), **written}


def _section(name: str, command: click.Command, shared: list[Option]) -> str:
    """Return the section of a command: its purpose, arguments and options."""
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    typed = [p.make_metavar(click.Context(command)) for p in arguments]
    line = " ".join(["toruscast", name, *typed])
    options = _options(command)
    title = f"\n## {name}\n" if " " in name else f"# toruscast {name}\n"
    others = [f"`{option.typed.split()[0].rstrip(',')}`" for option in options if option in shared]
    also = f"\nOptions of [several commands](../command.md): {', '.join(others)}.\n"
    own = _tables([option for option in options if option not in shared])
    return f"{title}\n{_summary(command)}\n\n`{line}`\n{own}{also if others else ''}"


def _tables(options: list[Option]) -> str:
    """Return a table of options for each group, in the order of the help."""
    tables = ""
    for group in GROUPS:
        rows = [
            f"| `{_in_cell(option.typed)}` | {_in_cell(option.text)} |\n"
            for option in options
            if option.group == group
        ]
        tables += TABLE.format(group) + "".join(rows) if rows else ""
    return tables


def _commands(group: click.Command, before: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is not a group, with its full name."""
    assert isinstance(group, click.Group)
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        name = f"{before} {word}".strip()
        if isinstance(command, click.Group):
            yield from _commands(command, name)
        else:
            yield name, command


def _options(command: click.Command) -> list[Option]:
    context = click.Context(command)
    found = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            # The help contains defaults and limits, which differ between commands.
            typed = re.sub(r" (INTEGER|FLOAT)( RANGE)?$", " N", record[0])
            text = re.sub(r"\s+\[[^\[\]]*\]$", "", record[1])
            found.append(Option(typed, text, getattr(parameter, "group", "Output")))
    return found


def _summary(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")
