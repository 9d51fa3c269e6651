"""The record of a file format."""

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
"""Command-line options that take a file of each kind."""


@dataclass(frozen=True)
class Dialect:
    """A file format: how it is recognised, read and written."""

    # For --format and --out-format; unique among the dialects of one kind of data.
    name: str
    holds: DataKind
    title: str
    # (source, options) -> graph, workload or mapping; (source, torus) -> hosts; source -> others.
    read: Callable[..., Any]
    # Detects a signature or column names at the start of a file; never raises. Files of bare
    # numbers have neither, and `registry` decides by their shape.
    recognise: Callable[[Source], bool] = lambda _: False
    # (graph, workload or torus, path), or (mapping, path, WriteOptions); None: read-only.
    write: Callable[..., None] | None = None
    # (WriteOptions, number of tasks, tasks per node): raises if the format cannot hold most
    # mappings of such a job.
    check_job: Callable[[Any, int, int], None] = lambda *_: None
    # Whether it is written from a workload with its rounds instead of one graph.
    writes_rounds: bool = False
    # Options of `read_workload` that the reader uses; others are refused.
    uses: tuple[str, ...] = ()
    # File suffixes, or complete file names without a dot.
    suffixes: tuple[str, ...] = ()
    # Markdown for the page of formats, and a small file; empty if the writer makes it.
    documentation: str = ""
    example: str | bytes = ""
    # How to use the written {file}: one text, or one for each machine name.
    advice: str | Mapping[str, str] = ""
    # Whether the file names hosts, so that writing needs a host table.
    on_hosts: bool = False
    # Optional package that the reader needs.
    needs: str = ""
    # Whether its graphs are sums over a whole run, without the order of messages.
    summed: bool = False
    # Further lines about a file for `toruscast doctor`.
    describe: Callable[[Source], list[str]] = lambda _: []

    @property
    def file_suffix(self) -> str:
        """The suffix of a file with a free name."""
        return next((each for each in self.suffixes if each.startswith(".")), ".txt")

    @property
    def usage_lines(self) -> list[str]:
        """Texts of ``advice`` without repetition, with ``{file}`` for the file name."""
        texts = [self.advice] if isinstance(self.advice, str) else self.advice.values()
        return [text for text in dict.fromkeys(texts) if text]

    def usage(self, file: str, machine: str = "") -> str:
        """Return how to use a written file on a machine; "" if it needs no explanation."""
        text = self.advice if isinstance(self.advice, str) else self.advice.get(machine, "")
        return text.replace("{file}", file)
