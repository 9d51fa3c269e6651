"""Objects as HTML, as a notebook shows them; what stands in a file's names shows as text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import import_module

from .text import shown_name


class NotebookCard:
    """An object that a notebook shows as its card."""

    def _repr_html_(self) -> str:
        return html_card(self)


def html_card(thing: object, facts: Iterable[tuple[str, object]] = ()) -> str:
    """Return what a notebook shows of an object: its repr, facts, table and picture.

    The room of answers draws the last two. It stands above the rooms of the objects, so that it is
    looked up here when a notebook asks, and no room imports it.
    """
    rows = "".join(f"<tr><th>{_cell(key)}</th><td>{_cell(value)}</td></tr>" for key, value in facts)
    drawn: str = import_module("toruscast.answers.write").shown_in_notebook(thing)
    return f"<table><caption>{_cell(repr(thing))}</caption>{rows}</table>{drawn}"


def _cell(value: object) -> str:
    return escape(shown_name(value))
