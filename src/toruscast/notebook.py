"""Objects as a notebook displays them, and what all results have; names of files show as text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .text import shown_name

if TYPE_CHECKING:
    from .answers.figures import Figure


def _answers() -> Any:
    """Return the writer of answers.

    It is above the rooms of the objects, so it is imported when an object is displayed.
    """
    return import_module("toruscast.answers.write")


class NotebookCard:
    """An object that a notebook displays as a card: its repr, facts, table and picture."""

    def _card_facts(self) -> Iterable[tuple[str, object]]:
        return ()

    def _repr_html_(self) -> str:
        facts = ((_cell(key), _cell(value)) for key, value in self._card_facts())
        rows = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in facts)
        drawn: str = _answers().notebook_html(self)
        return f"<table><caption>{_cell(repr(self))}</caption>{rows}</table>{drawn}"


def _cell(value: object) -> str:
    return escape(shown_name(value))


class Result(NotebookCard):
    """What a function of toruscast returns: beside its own attributes, a figure and a dictionary.

    Every result has a ``table``, a DataFrame, and ``best`` where there is something best.
    """

    def plot(self) -> Figure:
        """Return the main figure of the result.

        A notebook displays it. ``plot().save("figure.pdf")`` writes it as SVG, PNG or PDF.

        Examples
        --------
        >>> import toruscast as tc
        >>> halo = tc.patterns.halo_2d((4, 4), 4096, periodic=True)
        >>> tc.simulate(halo, "4x4", range(16)).plot()
        Figure('timeline')
        """
        figure: Figure = _answers().make_figure(self)
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Return what the command writes with ``--json``: numbers, texts, lists and dictionaries.

        Examples
        --------
        >>> import toruscast as tc
        >>> halo = tc.patterns.halo_2d((4, 4), 4096, periodic=True)
        >>> tc.simulate(halo, "4x4", range(16)).to_dict()["iterations"]
        1
        """
        content: dict[str, Any] = _answers().make_answer(self).to_dict()
        return content
