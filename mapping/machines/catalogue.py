"""What is known of each machine, as its preset says it."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from ..torus import Torus
from .registry import preset


@dataclass(frozen=True)
class Facts:
    """A machine in words: those of its preset's docstring.

    Attributes
    ----------
    name : str
        As it is typed.
    title : str
        What it is, in a line.
    about : str
        Which dimensions close, and what a node is; empty where nothing is to say.
    sources : str
        Which numbers are published, and where; where sources differ; what is not public and what
        is assumed instead.
    default : Torus
        What the name alone stands for.
    """

    name: str
    title: str
    about: str
    sources: str
    default: Torus


def facts(name: str) -> Facts:
    """Return what is known of a machine.

    Raises
    ------
    InputError
        If the machine is not known.

    Examples
    --------
    >>> facts("tpu_v6e").title
    'TPU v6e (Trillium) slice: 2-D, 90 GB/s a link each way'
    >>> facts("tpu_v6e").about
    'An axis wraps if it has 16 chips.'
    """
    make = preset(name)
    text = inspect.getdoc(make) or ""
    summary, _, rest = text.partition("\n\n")
    title = re.sub(r"^Return an? ", "", _one_line(summary)).removesuffix(".")
    intro = re.split(r"\n\w+\n-+\n", "\n" + rest)[0]
    notes = re.search(r"\nNotes\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", text, re.S)
    return Facts(
        make.__name__, title, _one_line(intro), _one_line(notes[1]) if notes else "", make()
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
