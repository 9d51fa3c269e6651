"""Where results go: tables for people, JSON, CSV and Parquet for programs."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast._slow import parquet, pyarrow, rich_console
from toruscast.answers.table import csv_text
from toruscast.errors import InputError
from toruscast.files import atomic_path, check_target
from toruscast.text import one_line

from . import progress as recording
from .options import option
from .progress import json_text, working
from .slow import registry

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120
STDOUT = "-"
# Options whose files hold text, whatever their suffix.
_TEXTS = ("--json", "--csv", "--links", "--log-file", "--report", "--trace")

# Options whose files hold no answer.
_NO_ANSWER = {"--log-file", "--samples", "--times"}


def _read() -> Iterator[tuple[str, Path]]:
    """Give what the present command was given that exists, by option or argument."""
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context is not None else ():
        value = context.params.get(parameter.name or "")  # type: ignore[union-attr]
        name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
        for text in value if isinstance(value, tuple) else (value,):
            if text and isinstance(text, str):
                with suppress(OSError, ValueError):
                    place = Path(os.path.realpath(text))
                    # What is no file may be the common prefix of per-rank files.
                    ranks = place.parent.glob(glob.escape(place.name) + ".*.prof*")
                    for found in [place] if place.exists() else ranks:
                        yield name or parameter.opts[0].upper(), found


def _is_read_with(source: str, folder: Path, file: Path) -> bool:
    """Whether who reads a folder of mappings or per-rank files takes a file for one of them."""
    holds_mappings = source == "--mappings"
    if source == "IN":
        holds_mappings = bool(click.get_current_context().params.get("mapping"))
    elif source not in ("--comm", "--mappings"):
        return False
    suffixes: tuple[str, ...] = (".prof",)
    if holds_mappings:
        suffixes = registry.suffixes_of("mapping")
    return file.parent == folder and file.name.removesuffix(".gz").lower().endswith(suffixes)


@dataclass(frozen=True)
class Output:
    """Where the user wants results, and how much is said besides.

    A file "-" is stdout, and then nothing else goes there.
    """

    GROUP: ClassVar = "Output"
    json_path: str | None = option("Write the result as JSON.", "FILE|-", "--json")
    csv_path: str | None = option("Write the table as CSV.", "FILE|-", "--csv")
    quiet: bool = option(
        "No progress bar, no messages.",
        "",
        "--quiet",
        "-q",
        default=False,
        excludes=("verbose",),
    )
    verbose: bool = option(
        "Say what is done, and show details.", "", "--verbose", "-v", default=False
    )
    log_path: str | None = option(
        "Append what is done to FILE, a line of JSON each.", "FILE", "--log-file"
    )
    links_path: str | None = None
    report: str | None = None
    figures: str | None = None
    figure_format: Literal["svg", "png", "pdf"] = "svg"
    progress = staticmethod(working)
    message = staticmethod(recording.tell)

    def __post_init__(self) -> None:
        to_stdout = [name for name, path in self._paths.items() if path == STDOUT]
        if len(to_stdout) > 1:
            raise click.UsageError(f"only one of {' and '.join(to_stdout)} can go to stdout")

    def check(
        self,
        files: Mapping[str, str | None] | None = None,
        also: Mapping[str, str | None] | None = None,
    ) -> None:
        """Raise early what writing would raise after the work; then begin the log."""
        files = {**(files or {}), "--report": self.report, "--log-file": self.log_path}
        also = {**(also or {}), "--figures": self.figures}
        for name, path in {**files, **also}.items():
            if path == STDOUT:
                raise click.UsageError(f"{name} cannot go to stdout")
        ours = {
            name: path
            for name, path in (self._paths | files).items()
            if path is not None and path != STDOUT
        }
        written = {name: path for name, path in (ours | also).items() if path is not None}
        # Python has no such stream where the caller closed it.
        if sys.__stdout__ is None and not (self.for_people and written.keys() - _NO_ANSWER):
            raise click.ClickException("stdout is closed")
        places = {name: Path(os.path.realpath(path)) for name, path in written.items()}
        others = [(name, place) for name, place in _read() if name not in places]
        for pair in combinations([*places.items(), *others], 2):
            if pair[0][0] in places and pair[0][1] == pair[1][1]:
                raise click.UsageError(f"{pair[0][0]} and {pair[1][0]} name the same file")
        for (target, file), (source, folder) in product(places.items(), others):
            if _is_read_with(source, folder, file):
                raise click.UsageError(f"{target} is a file of the folder that {source} reads")
        for name, path in ours.items():
            # A log may go to a device: it is appended to, never replaced.
            if name != "--log-file" or not Path(path).is_char_device():
                check_target(path, text=name in _TEXTS)
        if self.report is not None:
            answers.html.check_page(self.report)
        if self.figures is not None:
            check_folder(self.figures)
            answers.figures.check_form(self.figure_format)
        recording.begin(self.verbose, self.log_path, self.quiet)

    @property
    def _paths(self) -> dict[str, str]:
        paths = {"--json": self.json_path, "--csv": self.csv_path, "--links": self.links_path}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def for_people(self) -> bool:
        """Whether stdout is free for tables."""
        return STDOUT not in self._paths.values()

    def console(self) -> Console:
        """Return a console on stdout: as wide as the terminal, or 120 columns without one."""

        class Piped(rich_console.Console):
            def on_broken_pipe(self) -> None:
                # rich would end the program itself, as code of a plugin may.
                raise BrokenPipeError

        width = None if sys.stdout.isatty() else PLAIN_WIDTH
        return Piped(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)

    def say(self, text: str) -> None:
        """Say something to people: on stdout, if that is free for them."""
        if self.for_people and text and not self.quiet:
            click.echo(one_line(text))

    def deliver(self, answer: answers.blocks.Answer, more: dict[str, Any] | None = None) -> None:
        """Write an answer to all places where it is wanted: page, figures, JSON, CSV and terminal.

        ``more`` is what JSON says besides, before the answer.
        """
        if self.report is not None:
            command = shlex.join(["toruscast", *sys.argv[1:]])
            with working("Writing the report"):
                answers.html.write_page(answer, self.report, inputs=[("command", command)])
        if self.figures is not None:
            with working("Drawing the figures"):
                answers.figures.write_figures(answer, self.figures, self.figure_format)
        self.save(answer, more)
        self.show(answer)

    def save(self, answer: answers.blocks.Answer, more: dict[str, Any] | None = None) -> None:
        """Write an answer as JSON and CSV where they are wanted."""
        known = {} if answer.omitted is None else {"omitted": list(map(asdict, answer.omitted))}
        self.write_json({**(more or {}), **known, **answer.content})
        if self.csv_path is not None and answer.table is not None:
            write_text(csv_text(answer.table.frame), self.csv_path)

    def show(self, answer: answers.blocks.Answer) -> None:
        """Print an answer, if stdout is free for people."""
        if self.for_people:
            answers.terminal.show(answer, self.console(), self.verbose)

    def write_json(self, content: dict[str, Any]) -> None:
        """Write JSON where it is wanted."""
        if self.json_path is not None:
            write_text(json_text(content), self.json_path)


@dataclass(frozen=True)
class PageOutput(Output):
    """Output that may also be a page, and figures."""

    report: str | None = option(
        "Write the answer with its pictures as one file for a browser.", "FILE.html"
    )
    figures: str | None = option(
        "Draw the charts of the answer and its map of links into FOLDER, a file each.", "FOLDER"
    )
    figure_format: Literal["svg", "png", "pdf"] = option(
        "Kind of these files.", default="svg", needs=("figures",)
    )


def write_text(text: str, path: str) -> None:
    """Write text to stdout, or to a file that appears whole or not at all."""
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_folder(folder: str) -> None:
    """Raise early what writing into ``folder``, which may be new, would raise after the work."""
    place = Path(os.path.realpath(folder))
    found: object = "no such folder" if not place.parent.is_dir() else None
    if not folder or (place.exists() and not place.is_dir()):
        found = "a file" if folder else "an empty path"
    try:
        with TemporaryDirectory(prefix=".", dir=place if place.exists() else place.parent):
            pass
    except OSError as error:
        found = found or error.strerror or error
    if found:
        raise InputError("cannot be written", file=folder or None, found=found, expected="a folder")


@contextmanager
def growing(
    csv_path: str | None, parquet_path: str | None
) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Give a function that adds rows to a CSV and a Parquet file; "-" is stdout.

    Files appear whole, at the end, or not at all.
    """
    with ExitStack() as files:
        stream = sys.stdout if csv_path == STDOUT else None
        if csv_path is not None and stream is None:
            path = files.enter_context(atomic_path(csv_path))
            stream = files.enter_context(path.open("w", encoding="utf-8", newline=""))
        target = None if parquet_path is None else files.enter_context(atomic_path(parquet_path))
        writer: Any = None
        is_first = True

        def add(rows: pd.DataFrame) -> None:
            nonlocal writer, is_first
            if stream is not None:
                stream.write(csv_text(rows, header=is_first))
                stream.flush()
                is_first = False
            if target is not None:
                table = pyarrow.Table.from_pandas(rows)
                if writer is None:
                    writer = files.enter_context(parquet.ParquetWriter(target, table.schema))
                writer.write_table(table)

        yield add
