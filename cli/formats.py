"""``toruscast formats``: the file formats that can be read and written."""

from __future__ import annotations

from dataclasses import dataclass

from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table
from toruscast.errors import InputError
from toruscast.text import closest

from .options import argument, sub_command
from .output import Output
from .slow import format_registry

_COLUMNS = [
    Column("format", kind="name"),
    Column("holds"),
    Column("what it is", priority=0),
    Column("read", kind="flag", priority=2),
    Column("written", kind="flag"),
    Column("needs", priority=2),
]


@dataclass(frozen=True)
class _FormatArguments:
    name: str | None = argument("[NAME]", required=False)


@sub_command("formats")
def command(arguments: _FormatArguments, output: Output) -> None:
    """List the file formats, or describe one with an example."""
    output.check()
    name = arguments.name
    dialects = [each for each in format_registry.dialects() if name in (None, each.name)]
    if not dialects:
        expected = closest(str(name), {each.name for each in format_registry.dialects()})
        raise InputError("unknown format", found=name, expected=expected)
    rows = [
        {
            "format": dialect.name,
            "holds": dialect.holds,
            "what it is": dialect.title,
            "read": True,
            "written": dialect.write is not None,
            "needs": dialect.needs,
        }
        for dialect in dialects
    ]
    below: list[str] = []
    head = f"{len(dialects)} formats. 'toruscast formats NAME' describes one with an example."
    if name is not None:
        head = "; ".join(f"{each.name}: {each.title} ({each.holds})" for each in dialects)
        for dialect in dialects:
            texts = [dialect.documentation.strip()]
            if isinstance(dialect.example, str):
                texts.append(dialect.example.rstrip())
            texts += [
                f"to use it: {text.replace('{file}', 'FILE')}" for text in dialect.usage_lines
            ]
            below += [f"{text}\n" for text in texts if text]
    table = Table(pd.DataFrame(rows), _COLUMNS if name is None else ())
    output.write_table(head, table, below=below, content={"formats": rows})
