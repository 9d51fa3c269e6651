"""The record of a file format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .source import Source

Holds = Literal["graph", "mapping", "torus", "hosts", "times"]
NOUNS: dict[Holds, str] = {
    "graph": "communication graph",
    "mapping": "mapping",
    "torus": "torus",
    "hosts": "table of hosts",
    "times": "table of times",
}
OPTIONS: dict[Holds, str] = {
    "graph": "--comm",
    "mapping": "--mapping or --mappings",
    "torus": "--torus",
    "hosts": "--hosts",
    "times": "--times",
}
"""Which options take a file."""


@dataclass(frozen=True)
class Dialect:
    """One format of files.

    Parameters
    ----------
    name : str
        What ``--format`` and ``--out-format`` call it; each name stands once for what it holds.
    holds : str
        "graph", "mapping", "torus", "hosts" or "times".
    title : str
        What it is, in a few words.
    read : callable
        The reader. Of a graph: (source, options) -> CommGraph or Workload. Of a mapping: (source,
        options). Of a torus: source.
    recognise : callable
        Source -> whether the file starts as one of these: by a signature, or by a header with the
        names of columns. It never raises, and knows no other dialect. Files of bare numbers have
        neither, so that `guess` has rules for them.
    write : callable, optional
        The writer, with a file to write last; None where the dialect is only read.
    suffixes : tuple of str
        Suffixes of files that mean this dialect where none is named, or whole names without a dot.
    documentation : str
        Markdown for the page of formats.
    example : str or bytes
        A small file. Empty where the writer makes it.
    advice : str or mapping of str to str
        After writing: how the file is used, with ``{file}`` for its name; or that by the names of
        machines.
    on_hosts : bool
        Whether it names hosts, so that writing it needs a table of them.
    needs : str
        The package that reading it needs and that is not always installed.
    summed : bool
        Whether a graph of it sums the messages of a whole run, whoever waited for whom.
    describe : callable, optional
        Source -> lines about what is in the file besides the graph, for ``toruscast doctor``.
    """

    name: str
    holds: Holds
    title: str
    read: Callable[..., Any]
    recognise: Callable[[Source], bool] = lambda _: False
    write: Callable[..., None] | None = None
    suffixes: tuple[str, ...] = ()
    documentation: str = ""
    example: str | bytes = ""
    advice: str | Mapping[str, str] = ""
    on_hosts: bool = False
    needs: str = ""
    summed: bool = False
    describe: Callable[[Source], list[str]] = lambda _: []

    @property
    def advices(self) -> list[str]:
        """Every way to use a file that was written, with ``{file}`` for its name."""
        known = [self.advice] if isinstance(self.advice, str) else self.advice.values()
        return [words for words in dict.fromkeys(known) if words]

    def how_to_use(self, file: str, machine: str = "") -> str:
        """Return how a file that was written is used on a machine; empty where nothing is said."""
        words = self.advice if isinstance(self.advice, str) else self.advice.get(machine, "")
        return words.replace("{file}", file)
