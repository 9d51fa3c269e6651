"""The command and its sub-commands, each imported when first asked for; how errors end."""

from __future__ import annotations

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

# New objects after which garbage is looked for; 700 is usual. Modules and machine code make many
# objects that stay: to look at them took an eighth of the time of a short command.
_OBJECTS = 1_000_000


class SubCommands(click.Group):
    """A group that names similar sub-commands where there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            expected = closest(args[0], known)
            raise click.UsageError(f"unknown command: found {args[0]}, expected {expected}", ctx)
        return super().resolve_command(ctx, args)


FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
TRACEBACK = "TORUSCAST_TRACEBACK"


def described(error: Exception) -> tuple[str, int]:
    """Return a text for an error, and the exit code."""
    if isinstance(error, ReportedError):
        return str(error), error.exit_code
    if isinstance(error, MemoryError):
        return "out of memory", FAILED
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        where = shortened(str(error.filename), 1000) if error.filename else ""
        return f"{where}: {reason}" if where else reason, FAILED
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"unexpected {shortened(text, 1000)} (set {TRACEBACK}=1 to see where)", FAILED


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

# Commands that are not in a module of their own name here.
_MODULES = {
    "mesh": ("toruscast._mesh.command", "command"),
    "launch": ("toruscast.cli.mpi", "launch"),
    "trace": ("toruscast.cli.mpi", "trace"),
    "search": ("toruscast.cli.search", "search"),
    "machines": ("toruscast.cli.machines", "machines"),
    "calibrate": ("toruscast.cli.machines", "calibrate"),
    "explain": ("toruscast.cli.search", "explain"),
}
# By what they are for, in the order of the help.
_KINDS = {
    "Decide": {
        "rank": "Rank candidate mappings by predicted time, with reasons.",
        "plan": "Say which mapping to run next on the machine, and when to stop.",
        "search": "Search for a better mapping than those at hand.",
        "launch": "Start an MPI program with its ranks placed better, inside a job.",
        "mesh": "Rank the ways to lay the axes of a sharded model over a torus.",
        "collectives": "Rank the algorithms of a collective for a torus, a size and a rank map.",
    },
    "Understand": {
        "explain": "Explain why a mapping takes its time, and what to try.",
        "simulate": "Simulate one mapping as packets, or rank many, as packets or flows.",
        "features": "Compute the named features of mappings.",
    },
    "Learn": {
        "train": "Train a predictor and save it.",
        "evaluate": "Measure how well feature sets forecast unseen mappings.",
        "calibrate": "Find the constants of a machine's network from microbenchmarks.",
    },
    "Files": {
        "trace": "Run an MPI program, and record what it sends and in which order.",
        "doctor": "Say what files are, what is in them and what is wrong with them.",
        "convert": "Convert communication graphs and mappings between formats.",
        "formats": "List the formats of files that are read and written.",
        "machines": "List the machines that --torus knows, with the source of their numbers.",
    },
    "Scaling": {
        "pmnf": "Fit scaling models to measured values, and predict with them.",
        "interconnect": "Fit what latency and bandwidth cost, and ask what others would give.",
        "codesign": "Show what an upgrade or a machine offers an application.",
    },
}
COMMANDS = {name: what for commands in _KINDS.values() for name, what in commands.items()}


class Program(SubCommands):
    """A program that gives every error one line and an exit code."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run the command and exit: 0, 1 if the work failed, 2 if the input is wrong."""
        gc.set_threshold(_OBJECTS)
        options["standalone_mode"] = False
        options.setdefault("prog_name", self.name)
        code = 0
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                # It was closed. No other file may get its number, and workers inherit it.
                number = os.open(os.devnull, os.O_RDWR)
                os.set_inheritable(number, True)
                setattr(sys, name, os.fdopen(number, mode))
        for stream in (sys.stdout, sys.stderr):
            # Names of files may hold what the terminal cannot show.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        ended: list[int] = []

        def end(number: int, _: Any) -> NoReturn:
            ended.append(number)
            raise KeyboardInterrupt

        # They end the work as Ctrl-C does, its processes and temporary files too.
        with warnings.catch_warnings(), one_line_errors(ended) as failure, on_signals(end):
            warnings.showwarning = _show_warning
            # It warns of what an interruption leaves undone.
            warnings.filterwarnings("ignore", module="joblib")
            result = super().main(*args, **options)
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        code = failure.get("code", code)
        progress.end(code)
        sys.exit(code)


class Toruscast(Program):
    """The command, whose sub-commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the sub-commands, the main one first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a sub-command and return what it defines."""
        if cmd_name not in COMMANDS:
            return None
        module, name = _MODULES.get(cmd_name, (f"toruscast.cli.{cmd_name}", "command"))
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing them, by what they are for."""
        for title, commands in _KINDS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@contextmanager
def on_signals(handler: Callable[[int, Any], object], *numbers: int) -> Iterator[None]:
    """Have a function called for signals, SIGTERM and SIGHUP unless others are named."""
    numbers = numbers or (signal.SIGTERM, signal.SIGHUP)
    # Other threads set no handlers, and `nohup` has SIGHUP ignored.
    ends = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        ends = []
    before = {number: signal.signal(number, handler) for number in ends}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextmanager
def one_line_errors(ended: Sequence[int]) -> Iterator[dict[str, int]]:
    """Turn whatever is raised into one line on stderr and an exit code.

    What other code makes of the exception of a signal in ``ended`` is an interruption too.
    """
    failure: dict[str, int] = {}
    stdout = sys.stdout
    try:
        yield failure
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        failure["code"] = WRONG_INPUT
    except click.ClickException as error:
        wrong = isinstance(error, click.UsageError | click.FileError)
        failure["code"] = _end(_usage(error), WRONG_INPUT if wrong else FAILED)
    except (click.Abort, KeyboardInterrupt):
        failure["code"] = _end("interrupted", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        # click takes stdout away and exits where the reader of a pipe has gone.
        if isinstance(error, SystemExit) and sys.stdout is stdout:
            # Code of the user's own, such as a plugin's, must not end the program in silence.
            failure["code"] = _end(f"code of a plugin ended the program ({error.code})", FAILED)
            return
        failure["code"] = FAILED
        # The interpreter must not try to flush to it again.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        told = ("interrupted", INTERRUPTED) if ended else described(error)
        failure["code"] = _end(*told)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = one_line(str(message))
    progress.note(text, "warning", level=logging.WARNING)
    click.echo(f"toruscast: warning: {text}", err=True)


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    parameter = getattr(error, "param", None)
    found = re.match("'(.*?)' is not one of", getattr(error, "message", ""))
    if (
        found
        and isinstance(parameter, click.Parameter)
        and isinstance(parameter.type, click.Choice)
    ):
        known = closest(found[1], map(str, parameter.type.choices), " ")
        hint = hint if known == " " else f"; did you mean {known}?{hint}"
    return re.sub(r"(?<!\.)\.$", "", shortened(error.format_message(), 1000)) + hint


def _end(message: str, code: int) -> int:
    """Say why on stderr, on one line, and return the exit code."""
    progress.note(message, "error", level=logging.ERROR)
    with suppress(OSError):
        click.echo(f"toruscast: error: {one_line(message)}", err=True)
    return code


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"toruscast {__version__}")
        ctx.exit()


@click.group("toruscast", cls=Toruscast, context_settings=SETTINGS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Forecast which task mapping of a parallel application runs fastest on a torus network.

    \b
    Try: toruscast rank --comm lammps-lj-64 --torus 4x4x4 --check

    Tables are for people; where a command has --json FILE and --csv FILE, they write the same for
    programs ("-" is stdout). Exit status: 0 done, 1 the work failed, 2 the input is wrong, 130
    interrupted.
    """  # noqa: D301
