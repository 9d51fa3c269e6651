"""``python -m studies``."""

from .command import command

command()
