"""``toruscast formats``: which files are read and written."""

from __future__ import annotations

import click

from toruscast.answers.tables import new_table, print_table

from .options import output_record
from .output import Output


@click.command("formats")
@click.argument("name", required=False, metavar="[NAME]")
@output_record
def command(name: str | None, output: Output) -> None:
    """List the formats of files; with NAME, explain one and show an example."""
    import pandas as pd

    from toruscast.mapping.formats.registry import dialects

    output.check()
    known = [dialect for dialect in dialects() if name in (None, dialect.name)]
    if not known:
        from toruscast.errors import InputError
        from toruscast.wording import closest

        raise InputError(
            "unknown format", found=name, expected=closest(str(name), {d.name for d in dialects()})
        )
    rows = [
        {
            "format": dialect.name,
            "holds": dialect.holds,
            "what it is": dialect.title,
            "read": dialect.read is not None,
            "written": dialect.write is not None,
            "needs": dialect.needs,
        }
        for dialect in known
    ]
    output.write({"formats": rows}, pd.DataFrame(rows))
    if not output.for_people:
        return
    if name is not None:
        for dialect in known:
            click.echo(f"{dialect.name}: {dialect.title} ({dialect.holds})\n")
            click.echo(dialect.documentation.strip())
            if isinstance(dialect.example, str) and dialect.example:
                click.echo(f"\n{dialect.example.rstrip()}")
            for words in dialect.advices:
                click.echo(f"\nto use it: {words.replace('{file}', 'FILE')}")
        return
    table = new_table(
        "format",
        "holds",
        "what it is",
        "read",
        "written",
        left=("format", "holds", "what it is", "read", "written"),
    )
    for dialect in known:
        ways = ["yes" if way else "" for way in (dialect.read, dialect.write)]
        needs = f" (needs {dialect.needs})" if dialect.needs else ""
        table.add_row(dialect.name, dialect.holds, f"{dialect.title}{needs}", *ways)
    print_table(table, output.console(), keep=3)
