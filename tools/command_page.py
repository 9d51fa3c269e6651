"""The page of the command, made from what ``--help`` knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import click

from toruscast.cli import main

HEAD = """# The command

This page lists the sub-commands of `toruscast`. `make pages` writes it from the program.
`toruscast COMMAND --help` describes every option, with examples.

An exit status of 0 means done, 1 that the work failed, 2 that the input is wrong. `-` means
stdin or stdout.

## Commands and their own options

| command | what it does | arguments and own options |
|---|---|---|
"""
SHARED_HEAD = """
## Options of several commands

| option | what it does |
|---|---|
"""
# An option with the same words in so many commands is described here.
SHARED = 4


class Option(NamedTuple):
    """An option as it is typed, and what it does."""

    typed: str
    text: str


def page() -> str:
    """Return the page."""
    commands = dict(_commands(main, ""))
    uses = Counter(option for command in commands.values() for option in _options(command))
    shared = [option for option, times in uses.items() if times >= SHARED]
    rows = []
    for name, command in commands.items():
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        typed = [p.make_metavar(click.Context(command)) for p in arguments]
        typed += [_name(option) for option in _options(command) if option not in shared]
        cells = ", ".join(f"`{_in_cell(text)}`" for text in typed)
        rows.append(f"| `{name}` | {_summary(command)} | {cells} |\n")
    table = [f"| `{_in_cell(option.typed)}` | {_in_cell(option.text)} |\n" for option in shared]
    return HEAD + "".join(rows) + SHARED_HEAD + "".join(table)


def _commands(group: click.Command, before: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, by its words."""
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
            # Defaults and limits, which differ between commands, stand in the help.
            typed = re.sub(r" (INTEGER|FLOAT)( RANGE)?$", " N", record[0])
            found.append(Option(typed, re.sub(r"\s+\[[^\[\]]*\]$", "", record[1])))
    return found


def _name(option: Option) -> str:
    """Return the long name of an option."""
    return option.typed.split(", ")[-1].split()[0]


def _summary(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")
