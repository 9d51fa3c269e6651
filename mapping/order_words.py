"""Words for the order in which tasks fill a machine, in the machine's own sense.

On Blue Gene/Q ``ABCDET`` fills the cores of a node first: the last letter varies fastest. On Blue
Gene/L and /P ``XYZT`` walks along X first: the first letter varies fastest. On Fugaku
``rank-map-bynode=XYZ`` walks along X first and gives each node one rank before the next comes
round; ``rank-map-bychip:XYZ`` fills a node first. Names of strategies such as ``permute-XYZT`` mean
the same on every machine: the last letter varies fastest.
"""

from __future__ import annotations

import re

import numpy as np

from toruscast.errors import InputError
from toruscast.wording import counted

from .task_mapping import TaskMapping
from .torus import Torus

_FIRST_FASTEST = ("bluegene_l", "bluegene_p")
_LAST_FASTEST = ("bluegene_q",)
_FUJITSU = ("tofu_d", "k_computer")
_RANK_MAP = re.compile(r"rank-map-(bynode|bychip)[=:]([A-Za-z]+)")


def letters_of(word: str, torus: Torus) -> str | None:
    """Return the letters of a machine's word, the last varying fastest; None if it is no word.

    Examples
    --------
    >>> from toruscast.mapping.machines import bluegene_p, tofu_d
    >>> letters_of("TXYZ", bluegene_p((8, 8, 8)))
    'ZYXT'
    >>> letters_of("rank-map-bynode=XYZ", tofu_d((4, 4, 4)))
    'TZYX'
    """
    match = _RANK_MAP.fullmatch(word)
    if match and torus.name in _FUJITSU and sorted(match[2]) == sorted(torus.axes):
        inner = match[2][::-1]
        return f"T{inner}" if match[1] == "bynode" else f"{inner}T"
    if sorted(word) != sorted(f"{torus.axes}T"):
        return None
    if torus.name in _FIRST_FASTEST:
        return word[::-1]
    return word if torus.name in _LAST_FASTEST else None


def is_order_word(word: str, torus: Torus) -> bool:
    """Whether the machine has such a word.

    Examples
    --------
    >>> is_order_word("XYZT", Torus((4, 4, 4)))
    False
    """
    return letters_of(word, torus) is not None


def ordered(
    word: str, torus: Torus, n_tasks: int | None = None, tasks_per_node: int | None = None
) -> TaskMapping:
    """Return the mapping of a machine's word.

    Parameters
    ----------
    word : str
        Such as "ABCDET" on Blue Gene/Q, "TXYZ" on Blue Gene/L and /P, "rank-map-bynode=XYZ" on
        Fugaku.
    torus : Torus
        The machine.
    n_tasks : int, optional
        Tasks; as many as there are places if not given.
    tasks_per_node : int, optional
        Capacity of a node; the least that suffices if not given.

    Raises
    ------
    InputError
        If the machine has no such word, or the tasks do not fit.

    Examples
    --------
    >>> from toruscast.mapping.machines import bluegene_p
    >>> ordered("YXZT", bluegene_p((2, 2, 1))).node
    array([0, 1, 2, 3], dtype=int32)
    """
    letters = letters_of(word, torus)
    if letters is None:
        raise InputError("no order of this machine", found=word, expected=_expected(torus))
    capacity = tasks_per_node or max(-(-(n_tasks or 1) // torus.n_nodes), 1)
    axes = [f"{torus.axes}T".index(letter) for letter in letters]
    places = np.arange(torus.n_nodes * capacity).reshape(*torus.shape, capacity)
    place = places.transpose(axes).ravel()[:n_tasks]
    if n_tasks is not None and n_tasks > place.size:
        expected = f"at most {place.size}"
        raise InputError(
            "more tasks than places", found=counted(n_tasks, "task"), expected=expected
        )
    return TaskMapping(
        place // capacity, torus, slot=place % capacity, tasks_per_node=capacity, name=word
    )


def remark(name: str, torus: Torus) -> str:
    """Return what to say of a strategy's letters where the machine's own run the other way."""
    letters = name.partition("-")[2].partition("@")[0]
    if torus.name not in _FIRST_FASTEST or name.partition("-")[0] not in ("permute", "zigzag"):
        return ""
    if sorted(letters) != sorted(f"{torus.axes}T"):
        return f"{name}: the last letter varies fastest, unlike in the machine's own words"
    return (
        f"{name}: the last letter varies fastest; the machine's own word for this order is "
        f"{letters[::-1]}, in which the first does"
    )


def _expected(torus: Torus) -> str:
    word = f"{torus.axes}T"
    if torus.name in _FUJITSU:
        return f"rank-map-bynode={torus.axes} or rank-map-bychip:{torus.axes}, in any order"
    if torus.name in _FIRST_FASTEST:
        return f"the letters {word} in any order, the first varying fastest"
    if torus.name in _LAST_FASTEST:
        return f"the letters {word} in any order, the last varying fastest"
    return f"a strategy such as permute-{word}: {torus} has no words of its own"
