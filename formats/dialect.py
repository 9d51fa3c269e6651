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
    """One format of files."""

    # Its name for --format and --out-format, unique among dialects that hold the same.
    name: str
    holds: Holds
    title: str
    # (source, options) -> graph, workload or mapping; (source, torus) -> hosts; source -> others.
    read: Callable[..., Any]
    # Whether a file starts with a signature or names of columns; never raises. The registry
    # has rules for files of bare numbers, which have neither.
    recognise: Callable[[Source], bool] = lambda _: False
    # Takes the file to write last; None where the dialect is only read.
    write: Callable[..., None] | None = None
    # (target, number of tasks, tasks a node): raises where it holds hardly any mapping of a job.
    check_job: Callable[[Any, int, int], None] = lambda *_: None
    # Options of `read_workload` that the reader of a graph uses; others are refused.
    uses: tuple[str, ...] = ()
    # Suffixes of its files, or whole names without a dot.
    suffixes: tuple[str, ...] = ()
    # Markdown for the page of formats, and a small file, empty where the writer makes it.
    documentation: str = ""
    example: str | bytes = ""
    # How a written file, {file}, is used, maybe by the names of machines.
    advice: str | Mapping[str, str] = ""
    # Whether it names hosts, so that writing it needs a table of them.
    on_hosts: bool = False
    # A package that reading it needs and that is not always installed.
    needs: str = ""
    # Whether its graphs sum a whole run, so that the order of messages is lost.
    summed: bool = False
    # Lines about the file besides its graph, for `toruscast doctor`.
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
