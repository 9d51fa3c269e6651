"""``toruscast formats``: which files are read and written."""

from __future__ import annotations

from dataclasses import dataclass

from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table
from toruscast.errors import InputError
from toruscast.text import closest

from .options import argument, sub_command
from .output import Output
from .slow import registry

_COLUMNS = [
    Column("format", kind="name"),
    Column("holds"),
    Column("what it is", priority=0),
    Column("read", kind="flag", priority=2),
    Column("written", kind="flag"),
    Column("needs", priority=2),
]


@dataclass(frozen=True)
class NamedFormat:
    """One of them."""

    name: str | None = argument("[NAME]", required=False)


@sub_command("formats")
def command(which: NamedFormat, output: Output) -> None:
    """List the formats of files; with NAME, explain one and show an example."""
    output.check()
    name = which.name
    known = [dialect for dialect in registry.dialects() if name in (None, dialect.name)]
    if not known:
        expected = closest(str(name), {dialect.name for dialect in registry.dialects()})
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
        for dialect in known
    ]
    below: list[str] = []
    head = f"{len(known)} formats; 'toruscast formats NAME' shows one with an example"
    if name is not None:
        head = "; ".join(f"{each.name}: {each.title} ({each.holds})" for each in known)
        for dialect in known:
            texts = [dialect.documentation.strip()]
            if isinstance(dialect.example, str):
                texts.append(dialect.example.rstrip())
            texts += [f"to use it: {text.replace('{file}', 'FILE')}" for text in dialect.advices]
            below += [f"{text}\n" for text in texts if text]
    table = Table(pd.DataFrame(rows), _COLUMNS if name is None else ())
    output.deliver(answers.blocks.of_table(head, table, below=below, content={"formats": rows}))
