"""Output of the commands: tables on stdout, and JSON, CSV, Parquet and HTML files."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast._slow import parquet, pyarrow, rich_console
from toruscast.errors import InputError
from toruscast.files import atomic_path, check_target
from toruscast.text import one_line

from .options import display_name, option
from .progress import format_json, print_message, show_progress, start_log
from .slow import format_registry

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 120
STDOUT = "-"
# Options that write text files, so a file name with the suffix of a binary format is an error.
_TEXT_OPTIONS = ("--json", "--csv", "--links", "--log-file", "--report", "--trace")
# Options whose files do not contain the answer.
_NO_ANSWER = {"--log-file", "--samples", "--times"}


def _find_inputs() -> Iterator[tuple[str, Path]]:
    """Yield the option and the path of each file that is named in the command's parameters."""
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context is not None else ():
        value = context.params.get(parameter.name or "")  # type: ignore[union-attr]
        for text in value if isinstance(value, tuple) else (value,):
            if text and isinstance(text, str):
                with suppress(OSError, ValueError):
                    path = Path(os.path.realpath(text))
                    # A missing path may be the common prefix of per-rank files.
                    rank_files = path.parent.glob(glob.escape(path.name) + ".*.prof*")
                    for file in [path] if path.exists() else rank_files:
                        yield display_name(parameter), file


def _is_read_with(source: str, folder: Path, file: Path) -> bool:
    """Whether the option ``source`` would read ``file`` because it reads all of ``folder``."""
    has_mappings = source == "--mappings"
    if source == "IN":
        has_mappings = bool(click.get_current_context().params.get("mapping"))
    elif source not in ("--comm", "--mappings"):
        return False
    suffixes = format_registry.suffixes_of("mapping") if has_mappings else (".prof",)
    return file.parent == folder and file.name.removesuffix(".gz").lower().endswith(suffixes)


@dataclass(frozen=True)
class Output:
    """Options for where results are written. If a file is "-", stdout contains only that file."""

    GROUP: ClassVar = "Output"
    report: str | None = option("Write the answer with its charts as an HTML page.", "FILE.html")
    figures: str | None = option(
        "Write the charts and the link map of the answer as files to FOLDER.", "FOLDER", rare=True
    )
    figure_format: Literal["svg", "png", "pdf"] = option(
        "File format of the figures.", default="svg", needs=("figures",), rare=True
    )
    json_path: str | None = option("Write the result as JSON.", "FILE|-", "--json")
    csv_path: str | None = option("Write the table as CSV.", "FILE|-", "--csv")
    quiet: bool = option(
        "No progress bar, no messages.", "", "--quiet", "-q", default=False, excludes=("verbose",)
    )
    verbose: bool = option("Print log messages and details.", "", "--verbose", "-v", default=False)
    log_path: str | None = option(
        "Append log messages to FILE, one line of JSON each.", "FILE", "--log-file", rare=True
    )
    links_path: str | None = None
    progress = staticmethod(show_progress)
    message = staticmethod(print_message)

    def __post_init__(self) -> None:
        to_stdout = [name for name, path in self._paths.items() if path == STDOUT]
        if len(to_stdout) > 1:
            raise click.UsageError(f"only one of {' and '.join(to_stdout)} can go to stdout")

    def check(
        self,
        files: Mapping[str, str | None] | None = None,
        others: Mapping[str, str | None] | None = None,
    ) -> None:
        """Raise, before the work starts, if a file cannot be written; start the log.

        ``files`` are additional output files, by option. ``others`` are files or folders that the
        caller checks itself; this method only checks that they differ from all other files.
        """
        files = {**(files or {}), "--report": self.report, "--log-file": self.log_path}
        others = {**(others or {}), "--figures": self.figures}
        for name, path in {**files, **others}.items():
            if path == STDOUT:
                raise click.UsageError(f"{name} cannot go to stdout")
        checked = {
            name: path
            for name, path in (self._paths | files).items()
            if path is not None and path != STDOUT
        }
        written = {name: path for name, path in (checked | others).items() if path is not None}
        # sys.__stdout__ is None if the caller closed stdout.
        if sys.__stdout__ is None and not (self.is_stdout_free and written.keys() - _NO_ANSWER):
            raise click.ClickException("stdout is closed")
        targets = {name: Path(os.path.realpath(path)) for name, path in written.items()}
        inputs = [(name, path) for name, path in _find_inputs() if name not in targets]
        for (first, file), (second, other) in combinations([*targets.items(), *inputs], 2):
            if first in targets and file == other:
                raise click.UsageError(f"{first} and {second} name the same file")
        for (target, file), (source, folder) in product(targets.items(), inputs):
            if _is_read_with(source, folder, file):
                raise click.UsageError(f"{target} is a file of the folder that {source} reads")
        for name, path in checked.items():
            # A log may be a device, because it is never replaced.
            if name != "--log-file" or not Path(path).is_char_device():
                check_target(path, text=name in _TEXT_OPTIONS)
        if self.report is not None:
            answers.html.check_page_path(self.report)
        if self.figures is not None:
            check_output_folder(self.figures)
            answers.figures.check_figure_format(self.figure_format)
        start_log(self.verbose, self.log_path, self.quiet)

    @property
    def _paths(self) -> dict[str, str]:
        paths = {"--json": self.json_path, "--csv": self.csv_path, "--links": self.links_path}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def is_stdout_free(self) -> bool:
        """Whether no file is written to stdout."""
        return STDOUT not in self._paths.values()

    def console(self) -> Console:
        """Return a console on stdout, as wide as the terminal or else 120 columns."""

        class PipeConsole(rich_console.Console):
            def on_broken_pipe(self) -> None:
                # rich would exit here, and `report_errors` would attribute that to a plugin.
                raise BrokenPipeError

        width = None if sys.stdout.isatty() else PLAIN_WIDTH
        return PipeConsole(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)

    def print_line(self, text: str) -> None:
        """Print a line on stdout, unless a file is written there or --quiet is given."""
        if self.is_stdout_free and text and not self.quiet:
            click.echo(one_line(text))

    def write_answer(
        self, answer: answers.blocks.Answer, metadata: dict[str, Any] | None = None
    ) -> None:
        """Write and print an answer; the JSON file starts with the entries of ``metadata``."""
        self.write_files(answer, metadata)
        self.print_answer(answer)

    def write_table(
        self, head: str | answers.blocks.Headline, *blocks: answers.blocks.Block, **more: Any
    ) -> None:
        """Make an answer from these arguments with `table_answer`, and write it."""
        self.write_answer(answers.blocks.table_answer(head, *blocks, **more))

    def write_files(
        self, answer: answers.blocks.Answer, metadata: dict[str, Any] | None = None
    ) -> None:
        """Write the requested files of an answer."""
        if self.report is not None:
            command = shlex.join(["toruscast", *sys.argv[1:]])
            with show_progress("Writing the report"):
                answers.html.write_page(answer, self.report, inputs=[("command", command)])
        if self.figures is not None:
            with show_progress("Drawing the figures"):
                answers.figures.write_figures(answer, self.figures, self.figure_format)
        if self.json_path is not None:
            write_text(format_json({**(metadata or {}), **answer.to_dict()}), self.json_path)
        if self.csv_path is not None and answer.table is not None:
            write_text(answers.table.csv_text(answer.table.frame), self.csv_path)

    def print_answer(self, answer: answers.blocks.Answer) -> None:
        """Print an answer, unless a file is written to stdout."""
        if self.is_stdout_free:
            answers.terminal.print_answer(answer, self.console(), self.verbose)
        if self.report is not None:
            self.print_line(f"Page: {self.report}")


def write_text(text: str, path: str) -> None:
    """Write text to stdout, or atomically to a file."""
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_output_folder(folder: str) -> None:
    """Raise, before the work starts, if ``folder`` cannot be made or written to."""
    path = Path(os.path.realpath(folder))
    found: object = "no such folder" if not path.parent.is_dir() else None
    if not folder or (path.exists() and not path.is_dir()):
        found = "a file" if folder else "an empty path"
    try:
        with TemporaryDirectory(prefix=".", dir=path if path.exists() else path.parent):
            pass
    except OSError as error:
        found = found or error.strerror or error
    if found:
        raise InputError("cannot be written", file=folder or None, found=found, expected="a folder")


@contextmanager
def open_tables(
    csv_path: str | None, parquet_path: str | None
) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that appends rows to a CSV and a Parquet file.

    The files only appear if the block succeeds.
    """
    with ExitStack() as stack:
        stream = sys.stdout if csv_path == STDOUT else None
        if csv_path is not None and stream is None:
            path = stack.enter_context(atomic_path(csv_path))
            stream = stack.enter_context(path.open("w", encoding="utf-8", newline=""))
        target = None if parquet_path is None else stack.enter_context(atomic_path(parquet_path))
        writer: Any = None
        is_first = True

        def append(rows: pd.DataFrame) -> None:
            nonlocal writer, is_first
            if stream is not None:
                stream.write(answers.table.csv_text(rows, header=is_first))
                stream.flush()
                is_first = False
            if target is not None:
                table = pyarrow.Table.from_pandas(rows)
                if writer is None:
                    writer = stack.enter_context(parquet.ParquetWriter(target, table.schema))
                writer.write_table(table)

        yield append
