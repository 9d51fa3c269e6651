"""The description of a file format: names, reader, writer and documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .source import Source

DataKind = Literal["graph", "mapping", "torus", "hosts", "times"]
KIND_NAMES: dict[DataKind, str] = {
    "graph": "communication graph",
    "mapping": "mapping",
    "torus": "torus",
    "hosts": "table of hosts",
    "times": "table of times",
}
KIND_OPTIONS: dict[DataKind, str] = {
    "graph": "--comm",
    "mapping": "--mapping or --mappings",
    "torus": "--torus",
    "hosts": "--hosts",
    "times": "--times",
}
"""Command-line options for files of each kind."""


@dataclass(frozen=True)
class Dialect:
    """A file format: how it is recognised, read and written."""

    name: str  # for --format and --out-format, unique among the dialects of a kind of data
    holds: DataKind
    title: str
    # (source, options) -> graph, workload or mapping; (source, torus) -> hosts; for other kinds of
    # data, source -> data.
    read: Callable[..., Any]
    # Whether a file starts with a signature or column names of this format; never raises. Files of
    # bare numbers have neither, so `registry` identifies them by their rows and columns.
    recognise: Callable[[Source], bool] = lambda _: False
    # Takes (graph, workload or torus, path) or (mapping, path, WriteOptions); None if read-only.
    write: Callable[..., None] | None = None
    # Takes (WriteOptions, number of tasks, tasks per node); raises an error if the format cannot
    # store most mappings of such a job.
    check_job: Callable[[Any, int, int], None] = lambda *_: None
    writes_rounds: bool = False  # whether the writer takes a workload instead of a graph
    uses: tuple[str, ...] = ()  # options of `read_workload`; other options raise an error
    suffixes: tuple[str, ...] = ()  # of files, or complete file names without a dot
    documentation: str = ""  # Markdown for the reference page
    example: str | bytes = ""  # content of a small file; empty if the page uses the writer
    # How to use a written {file}: one text, or a text for each machine by name.
    advice: str | Mapping[str, str] = ""
    on_hosts: bool = False  # whether the file contains host names, so the writer needs them
    needs: str = ""  # optional package that the reader needs
    summed: bool = False  # whether graphs are sums over a whole run, without the order of messages
    # Further lines about a file for `toruscast doctor`.
    describe: Callable[[Source], list[str]] = lambda _: []

    @property
    def file_suffix(self) -> str:
        """The first suffix of the format; ".txt" if it has none, or only fixed file names."""
        return next((each for each in self.suffixes if each.startswith(".")), ".txt")

    @property
    def usage_lines(self) -> list[str]:
        """The distinct texts of ``advice``, with ``{file}`` in place of the file name."""
        texts = [self.advice] if isinstance(self.advice, str) else self.advice.values()
        return [text for text in dict.fromkeys(texts) if text]

    def usage(self, file: str, machine: str = "") -> str:
        """Return how to use a written file on a machine; "" if it needs no explanation."""
        text = self.advice if isinstance(self.advice, str) else self.advice.get(machine, "")
        return text.replace("{file}", file)
