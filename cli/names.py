"""Names that there are not: similar ones, of sub-commands and of everything else."""

from __future__ import annotations

from collections.abc import Iterable

import click


def closest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the names like ``name``, or where there are none, ``otherwise`` or all.

    Examples
    --------
    >>> closest("identty", ["greedy", "identity", "random"])
    'identity'
    """
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    return " or ".join(close) or otherwise or " or ".join(names)


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
