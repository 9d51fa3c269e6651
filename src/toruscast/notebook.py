"""Base classes of results, and of objects that a notebook displays."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .text import shown_name

if TYPE_CHECKING:
    from .answers.figures import Figure


def _answers() -> Any:
    """Return the module that writes answers; a normal import would be circular."""
    return import_module("toruscast.answers.write")


class NotebookCard:
    """Base class of objects that a notebook displays with their repr, facts, table and figure."""

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
    """Base class of results, which can be plotted and converted to a dictionary.

    Every result has a DataFrame ``table``. Results that compare candidates also have ``best``.
    """

    def plot(self) -> Figure:
        """Return the main figure of the result, which a notebook displays.

        ``plot().save("figure.pdf")`` writes it to a file; other suffixes are ``.svg`` and ``.png``.

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
        """Return the content that the command writes with ``--json``, as a dictionary.

        Examples
        --------
        >>> import toruscast as tc
        >>> halo = tc.patterns.halo_2d((4, 4), 4096, periodic=True)
        >>> tc.simulate(halo, "4x4", range(16)).to_dict()["iterations"]
        1
        """
        content: dict[str, Any] = _answers().make_answer(self).to_dict()
        return content
