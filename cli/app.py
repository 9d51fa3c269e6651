"""The ``toruscast`` command: its sub-commands, signals, errors and exit codes."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from toruscast import __version__
from toruscast.errors import ReportedError
from toruscast.text import closest, one_line, shortened

from . import progress

# Number of allocations between garbage collections. Imports create many permanent objects; with
# Python's default of 700, a short command would spend much of its time scanning them.
_GC_THRESHOLD = 1_000_000
FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
TRACEBACK = "TORUSCAST_TRACEBACK"
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

# Module and function of each sub-command that is not `command` in the module with its name.
_MODULES = {
    "mesh": ("toruscast._mesh.command", "command"),
    "launch": ("toruscast.cli.mpi", "launch"),
    "trace": ("toruscast.cli.mpi", "trace"),
    "calibrate": ("toruscast.cli.machines", "calibrate"),
    "explain": ("toruscast.cli.search", "explain"),
}
# Sections of the help, with the summary of each sub-command.
_SECTIONS = {
    "Decide": {
        "rank": "Rank candidate mappings by predicted time.",
        "plan": "Choose the next mapping to run on the machine, and when to stop.",
        "search": "Search for a faster mapping.",
        "launch": "Start an MPI program with an optimised rank placement, inside a job.",
        "mesh": "Rank the layouts of a sharded model's axes on a torus.",
        "collectives": "Rank the algorithms of a collective on a torus.",
    },
    "Understand": {
        "explain": "Explain the time of a mapping, and suggest a change.",
        "simulate": "Simulate one mapping in detail, or rank many, with packets or flows.",
        "features": "Compute the named features of mappings.",
    },
    "Learn": {
        "train": "Train a predictor and save it.",
        "evaluate": "Measure how well feature sets predict unseen mappings.",
        "calibrate": "Fit the network constants of a machine to microbenchmarks.",
    },
    "Files": {
        "trace": "Run an MPI program, and record its messages and their order.",
        "doctor": "Check the format and the content of files.",
        "convert": "Convert communication graphs, mappings and tori between formats.",
        "formats": "List the file formats that can be read and written.",
        "machines": "List the machines that --torus accepts, with sources.",
    },
    "Scaling": {
        "pmnf": "Fit scaling models to measurements, and predict with them.",
        "interconnect": "Fit the cost of latency and bandwidth, and predict other networks.",
        "codesign": "Compare the requirements of applications with upgrades and machines.",
    },
}
COMMANDS = {name: text for section in _SECTIONS.values() for name, text in section.items()}


class CommandGroup(click.Group):
    """A group that suggests similar sub-commands for an unknown name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a sub-command by its name; raise a `click.UsageError` for an unknown name."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            expected = closest(args[0], known)
            raise click.UsageError(f"unknown command: found {args[0]}, expected {expected}", ctx)
        return super().resolve_command(ctx, args)


class Program(CommandGroup):
    """A program that reports every error as one line and an exit code."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run the command and exit with 0, 1 (the work failed) or 2 (the input is wrong)."""
        gc.set_threshold(_GC_THRESHOLD)
        # Otherwise, collections at exit would scan all modules and take as long as some imports.
        atexit.register(gc.freeze)
        options["standalone_mode"] = False
        options.setdefault("prog_name", self.name)
        code = 0
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                # The caller closed the stream. Occupy its descriptor; otherwise another file would
                # get it, and workers would inherit that file.
                descriptor = os.open(os.devnull, os.O_RDWR)
                os.set_inheritable(descriptor, True)
                setattr(sys, name, os.fdopen(descriptor, mode))
        for stream in (sys.stdout, sys.stderr):
            # File names may contain bytes that the terminal cannot display.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        received: list[int] = []

        def interrupt(number: int, _: Any) -> NoReturn:
            received.append(number)
            raise KeyboardInterrupt

        # On a signal, end worker processes and remove temporary files, as on Ctrl-C.
        with warnings.catch_warnings(), report_errors(received) as failure, on_signals(interrupt):
            warnings.showwarning = _show_warning
            # joblib warns when an interruption ends its workers.
            warnings.filterwarnings("ignore", module="joblib")
            result = super().main(*args, **options)
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        code = failure.get("code", code)
        progress.stop_log(code)
        sys.exit(code)


class _Toruscast(Program):
    """The command; it imports a sub-command only when that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = _MODULES.get(cmd_name, (f"toruscast.cli.{cmd_name}", "command"))
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@contextmanager
def on_signals(handler: Callable[[int, Any], object], *numbers: int) -> Iterator[None]:
    """Handle signals inside the block: those in ``numbers``, by default SIGTERM and SIGHUP."""
    numbers = numbers or (signal.SIGTERM, signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        # Python can set signal handlers only in the main thread.
        numbers = ()
    # Signals that were already ignored stay ignored, such as SIGHUP under nohup.
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, old_handler in previous.items():
            signal.signal(number, old_handler)


@contextmanager
def report_errors(signals: Sequence[int]) -> Iterator[dict[str, int]]:
    """Print one line for an exception, and store the exit code as "code" in the yielded dictionary.

    ``signals`` lists the signals received so far. After a signal, any exception is reported as an
    interruption, because libraries may turn a KeyboardInterrupt into another exception.
    """
    failure: dict[str, int] = {}
    stdout = sys.stdout
    try:
        yield failure
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        failure["code"] = WRONG_INPUT
    except click.ClickException as error:
        is_wrong_input = isinstance(error, click.UsageError | click.FileError)
        code = WRONG_INPUT if is_wrong_input else FAILED
        failure["code"] = _print_error(_format_click_error(error), code)
    except (click.Abort, KeyboardInterrupt):
        failure["code"] = _print_error("interrupted", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        # If the program that reads our output has ended, click replaces stdout and exits.
        if isinstance(error, SystemExit) and sys.stdout is stdout:
            message = f"code of a plugin ended the program ({error.code})"
            failure["code"] = _print_error(message, FAILED)
            return
        failure["code"] = FAILED
        # Keep the interpreter from flushing to the closed pipe at exit.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        message, code = ("interrupted", INTERRUPTED) if signals else _describe_error(error)
        failure["code"] = _print_error(message, code)


def _describe_error(error: Exception) -> tuple[str, int]:
    """Return the message for an error and the exit code."""
    if isinstance(error, ReportedError):
        return str(error), error.exit_code
    if isinstance(error, MemoryError):
        return "out of memory", FAILED
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        file = shortened(str(error.filename), 1000) if error.filename else ""
        return f"{file}: {reason}" if file else reason, FAILED
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"unexpected {shortened(text, 1000)} (set {TRACEBACK}=1 for a traceback)", FAILED


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = one_line(str(message))
    progress.log_event(text, "warning", level=logging.WARNING)
    click.echo(f"toruscast: warning: {text}", err=True)


def _format_click_error(error: click.ClickException) -> str:
    """Return click's message, with the most similar choice and the command for help."""
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    parameter = getattr(error, "param", None)
    match = re.match("'(.*?)' is not one of", getattr(error, "message", ""))
    if (
        match
        and isinstance(parameter, click.Parameter)
        and isinstance(parameter.type, click.Choice)
        and (similar := closest(match[1], map(str, parameter.type.choices), " ").strip())
    ):
        hint = f"; did you mean {similar}?{hint}"
    return re.sub(r"(?<!\.)\.$", "", shortened(error.format_message(), 1000)) + hint


def _print_error(message: str, code: int) -> int:
    """Print the message on one line of stderr, and return the exit code."""
    progress.log_event(message, "error", level=logging.ERROR)
    with suppress(OSError):
        click.echo(f"toruscast: error: {one_line(message)}", err=True)
    return code


@click.group("toruscast", cls=_Toruscast, context_settings=CONTEXT_SETTINGS)
@click.version_option(__version__, message="toruscast %(version)s")
def main() -> None:
    """Predict which task mapping of a parallel application is fastest on a torus network.

    \b
    Try: toruscast rank --comm lammps-lj-64 --torus 4x4x4 --check

    Commands print tables. With --json FILE and --csv FILE they also write the results for programs
    ("-" is stdout). Exit status: 0 success, 1 the work failed, 2 the input is wrong, 130
    interrupted.
    """  # noqa: D301
