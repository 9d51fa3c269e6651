"""The option that writes an answer as a page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .progress import working

if TYPE_CHECKING:
    from toruscast.report.page.write import Answer

F = TypeVar("F", bound=Callable[..., Any])


def report_option(function: F) -> F:
    """Add the page to write."""
    return click.option(
        "--report",
        metavar="FILE.html",
        help="Write the answer with its pictures as one file for a browser.",
    )(function)


def check_page(path: str | None) -> None:
    """Raise before the work what writing the page would raise after it."""
    if path is not None:
        from toruscast.report.page.write import check_report

        check_report(path)


def write_page(answer: Answer, path: str | None) -> None:
    """Write the page, if one is asked for; it tells the command that made it."""
    if path is not None:
        from toruscast.report.page.write import write_report

        command = shlex.join(["toruscast", *sys.argv[1:]])
        with working("Writing the report"):
            write_report(answer, path, inputs=[("command", command)])
