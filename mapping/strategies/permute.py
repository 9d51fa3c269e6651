"""Placements that walk the torus line by line: permuted, zigzag, tilted, or with a stride.

Machines have words of their own for the order in which tasks fill them. On Blue Gene/Q ``ABCDET``
fills the cores of a node first: the last letter varies fastest. On Blue Gene/L and /P ``XYZT``
walks along X first: the first letter varies fastest. On Fugaku ``rank-map-bynode=XYZ`` walks along
X first and gives each node one rank before the next comes round; ``rank-map-bychip:XYZ`` fills a
node first. Names of strategies such as ``permute-XYZT`` mean the same on every machine: the last
letter varies fastest.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.text import counted

from ..task_mapping import TaskMapping
from ..torus import Torus
from .orders import permuted
from .orders import zigzag as zigzag_order
from .placement import Placement
from .registry import VariantError, register

Rng = np.random.Generator

_ORDER = (
    "LETTERS: the dimensions and T, the slots (here {letters}), in an order, the last varying "
    "fastest; what has size 1 may be left out"
)


@register("identity")
def identity(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill one node after the other in C order."""
    return np.arange(placement.n_tasks) // placement.capacity


def _permutations(placement: Placement) -> list[str]:
    """Orders of the letters that make a difference; with T, T last, first, and in between."""
    letters = [a for a, size in zip(placement.letters, placement.shape, strict=True) if size > 1]
    if len(letters) <= 4:
        words = ["".join(word) for word in itertools.permutations(letters)]
        return words[1:]
    inner = "".join(a for a in letters if a != "T")
    slot = "T" * ("T" in letters)
    turns = [inner[k:] + inner[:k] for k in range(len(inner))]
    turns += [word[::-1] for word in turns]
    words = [slot + inner, inner[::-1] + slot]
    for k, word in enumerate(turns):
        cut = 1 + k % (len(inner) - 1)
        words += [slot + word, word[:cut] + slot + word[cut:], word + slot]
    words = list(dict.fromkeys(words))
    return [word for word in words if word != inner + slot]


def _zigzags(placement: Placement) -> list[str]:
    letters = [a for a, size in zip(placement.letters, placement.shape, strict=True) if size > 1]
    return ["".join(letters), *_permutations(placement)] if len(letters) > 1 else []


@register("permute-LETTERS", _permutations, example="permute-ZYX", parameters=_ORDER)
def permute(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill places line by line, the dimension of the last letter (T: slots) varying fastest."""
    axes = _axes(placement, variant)
    return permuted(placement.shape, axes)[: placement.n_tasks] // placement.capacity


@register("zigzag-LETTERS", _zigzags, example="zigzag-XYZ", parameters=_ORDER)
def zigzag(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill places line by line as `permute`, every other line backwards."""
    axes = _axes(placement, variant)
    return zigzag_order(placement.shape, axes)[: placement.n_tasks] // placement.capacity


def _tilts(placement: Placement) -> list[str]:
    """Single shears, small first, then pairs of them."""
    torus, letters = placement.torus, placement.letters
    long = [d for d, size in enumerate(torus.shape) if size > 1]
    steps = sorted({1, 2, 3, *(torus.shape[d] // 2 for d in long)})
    single = [
        f"{letters[d]}{letters[e]}-{k}"
        for k in steps
        for d, e in itertools.permutations(long, 2)
        if k < torus.shape[d]
    ]
    double = [
        f"{letters[d]}{letters[e]}-{k}-{letters[e]}{letters[f]}-{m}"
        for k, m in itertools.product(steps, repeat=2)
        for d, e, f in zip(long, long[1:], long[2:], strict=False)
        if k < torus.shape[d] and m < torus.shape[e]
    ]
    return single + double


@register(
    "tilt-LETTERS-K",
    _tilts,
    example="tilt-XY-1",
    parameters="LETTERS: two of the dimensions (here {dimensions}), K: hops by which the first is "
    "shifted for each step along the second; further -LETTERS-K may follow",
)
def tilt(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Shear the identity: shift dimension one by K times the coordinate in dimension two.

    Further shears may follow, as in ``tilt-XY-1-YZ-2``.
    """
    torus, letters = placement.torus, placement.letters[:-1]
    step = rf"[{letters}]{{2}}-[0-9]{{1,9}}"
    if not re.fullmatch(rf"{step}(-{step})*", variant):
        raise VariantError
    coords = torus.coords.astype(np.int64)
    words = variant.split("-")
    for pair, count in zip(words[::2], words[1::2], strict=True):
        d, e = (letters.index(letter) for letter in pair)
        if d == e:
            raise VariantError
        coords[:, d] = (coords[:, d] + int(count) * coords[:, e]) % torus.shape[d]
    return torus.node(coords)[identity(placement, "", rng)]


def _strides(placement: Placement) -> list[str]:
    n_places = placement.n_places
    wanted = {round(n_places ** (k / 12)) for k in range(1, 12)}
    near = (next((s for s in range(w, n_places) if math.gcd(s, n_places) == 1), 1) for w in wanted)
    return [str(step) for step in sorted(set(near)) if 1 < step < n_places]


@register(
    "stride-K",
    _strides,
    example="stride-5",
    parameters="K: places from a task to the next, with no factor in common with the number of all "
    "places, here {places}",
)
def stride(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put each task K places after the one before, around the machine; K coprime to the places."""
    step = int(variant) if re.fullmatch("[0-9]{1,9}", variant) else 0
    if math.gcd(step, placement.n_places) != 1:
        raise VariantError
    return np.arange(placement.n_tasks) * step % placement.n_places // placement.capacity


def _axes(placement: Placement, word: str) -> list[int]:
    """Axis of each letter; dimensions that the word leaves out must have one coordinate."""
    letters = placement.letters
    absent = [axis for axis, letter in enumerate(letters) if letter not in word]
    if (
        len(set(word)) != len(word)
        or set(word) - set(letters)
        or any(placement.shape[axis] > 1 for axis in absent)
    ):
        raise VariantError
    return absent + [letters.index(letter) for letter in word]


_FIRST_FASTEST = ("bluegene_l", "bluegene_p")
_LAST_FASTEST = ("bluegene_q",)
_FUJITSU = ("tofu_d", "k_computer")
_RANK_MAP = re.compile(r"rank-map-(bynode|bychip)[=:]([A-Za-z]+)")


def letters_of(word: str, torus: Torus) -> str | None:
    """Return the letters of a machine's word, the last varying fastest; None if it is no word."""
    match = _RANK_MAP.fullmatch(word)
    if match and torus.name in _FUJITSU and sorted(match[2]) == sorted(torus.axes):
        inner = match[2][::-1]
        return f"T{inner}" if match[1] == "bynode" else f"{inner}T"
    if sorted(word) != sorted(f"{torus.axes}T"):
        return None
    if torus.name in _FIRST_FASTEST:
        return word[::-1]
    return word if torus.name in _LAST_FASTEST else None


def ordered(
    word: str, torus: Torus, n_tasks: int | None = None, tasks_per_node: int | None = None
) -> TaskMapping:
    """Return the mapping of a machine's word."""
    letters = letters_of(word, torus)
    if letters is None:
        raise InputError("no order of this machine", found=word, expected=_expected(torus))
    capacity = tasks_per_node or max(-(-(n_tasks or 1) // torus.n_nodes), 1)
    axes = [f"{torus.axes}T".index(letter) for letter in letters]
    place = permuted((*torus.shape, capacity), axes)[:n_tasks]
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
