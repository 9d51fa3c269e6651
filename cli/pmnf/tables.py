"""Tables of ``toruscast pmnf``, and the notes below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toruscast.answers.tables import new_table, print_table, top_and_bottom

from ..output import Output

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.scaling.pmnf.notes import Note


def say(output: Output, notes: list[list[Note]], named: list[tuple[str, str]]) -> None:
    """Say each kind of note once: how many models it is true of, and the first of them."""
    found: dict[str, list[tuple[Note, tuple[str, str]]]] = {}
    for some, name in zip(notes, named, strict=True):
        for note in some:
            found.setdefault(note.kind, []).append((note, name))
    for same in found.values():
        note, (path, metric) = same[0]
        if len(named) == 1:
            output.message(note)
        else:
            output.message(f"{len(same)} of {len(named)} models, such as {path} ({metric}): {note}")


def finish(
    output: Output,
    content: dict[str, Any],
    table: pd.DataFrame,
    shown: list[str],
    top: int,
    keep: int,
) -> None:
    """Write, and print the columns `shown`; the first of them that `keep` counts always.

    Of a long table only the first `top` rows and the last ones are printed.
    """
    output.write(content, table)
    if not output.for_people:
        return
    heads = {name: "smape, %" if name == "smape" else name.replace("_", " ") for name in shown}
    left = tuple(heads[name] for name in shown if table[name].dtype.kind != "f")
    view = new_table(*heads.values(), left=left)
    rows, part = top_and_bottom(len(table), top), table[shown]
    for i in rows:
        cells = ["..."] if i is None else part.iloc[i]
        texts = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
        view.add_row(*["" if text == "nan" else text for text in texts])
    # Rows that are not printed may differ.
    spare = tuple(name for name in ("metric", "at") if name in shown and table[name].nunique() == 1)
    console = output.console()
    print_table(view, console, keep, spare)
    if None in rows:
        hidden = len(table) - len(rows) + 1
        console.print(
            f"({hidden} of {len(table)} rows are not shown: --top shows more, --csv and --json "
            "have all)",
            style="dim",
        )
