"""Objects as HTML, as a notebook shows them; what stands in a file's names shows as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module

from .text import shown_name


def html_card(thing: object, facts: Iterable[tuple[str, object]] = ()) -> str:
    """Return what a notebook shows of an object: its repr, facts and its picture.

    The room of answers draws the picture. It stands above the rooms of the objects, so that it is
    looked up here when a notebook asks, and no room imports it.
    """
    picture: str = import_module("toruscast.answers.write").picture_of(thing)
    return html_facts(repr(thing), facts) + picture


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Return what is known of an object as a table of two columns, with a title.

    Examples
    --------
    >>> html_facts("Torus", [("nodes", 64)])
    '<table><caption>Torus</caption><tr><th>nodes</th><td>64</td></tr></table>'
    """
    rows = "".join(f"<tr><th>{_cell(key)}</th><td>{_cell(value)}</td></tr>" for key, value in facts)
    return f"<table><caption>{_cell(title)}</caption>{rows}</table>"


def html_rows(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as a table with a head.

    Examples
    --------
    >>> html_rows(["mapping"], [["<b>"]])
    '<table><tr><th>mapping</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    lines = "".join(f"<tr>{''.join(f'<td>{_cell(c)}</td>' for c in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{_cell(c)}</th>' for c in head)}</tr>{lines}</table>"


def _cell(value: object) -> str:
    return escape(shown_name(value))
