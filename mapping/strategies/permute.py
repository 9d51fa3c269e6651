"""Placements that walk the torus line by line: permuted, zigzag, tilted, or with a stride."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import orders
from .placement import Placement
from .registry import bad_variant, register

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
    shape = (*placement.torus.shape, placement.capacity)
    letters = [a for a, size in zip(placement.letters, shape, strict=True) if size > 1]
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
    shape = (*placement.torus.shape, placement.capacity)
    letters = [a for a, size in zip(placement.letters, shape, strict=True) if size > 1]
    return ["".join(letters), *_permutations(placement)] if len(letters) > 1 else []


def _single(placement: Placement) -> str:
    """What to say where there is but one order."""
    long = sum(size > 1 for size in (*placement.torus.shape, placement.capacity))
    return "" if long > 1 else "here no two are longer than 1, so there is only identity's order"


@register("permute-LETTERS", _permutations, example="permute-ZYX", parameters=_ORDER, limit=_single)
def permute(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill places line by line, the dimension of the last letter (T: slots) varying fastest."""
    axes = _axes(placement, "permute", variant)
    shape = (*placement.torus.shape, placement.capacity)
    return orders.permuted(shape, axes)[: placement.n_tasks] // placement.capacity


@register("zigzag-LETTERS", _zigzags, example="zigzag-XYZ", parameters=_ORDER, limit=_single)
def zigzag(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill places line by line as `permute`, every other line backwards."""
    axes = _axes(placement, "zigzag", variant)
    shape = (*placement.torus.shape, placement.capacity)
    return orders.zigzag(shape, axes)[: placement.n_tasks] // placement.capacity


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
    limit=lambda placement: (
        ""
        if sum(size > 1 for size in placement.torus.shape) > 1
        else "needs two dimensions longer than 1"
    ),
)
def tilt(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Shear the identity: shift dimension one by K times the coordinate in dimension two.

    Further shears may follow, as in ``tilt-XY-1-YZ-2``.
    """
    torus, letters = placement.torus, placement.letters[:-1]
    step = rf"[{letters}]{{2}}-[0-9]{{1,9}}"
    if not re.fullmatch(rf"{step}(-{step})*", variant):
        raise bad_variant(placement, "tilt", variant)
    coords = torus.coords.astype(np.int64)
    words = variant.split("-")
    for pair, count in zip(words[::2], words[1::2], strict=True):
        d, e = (letters.index(letter) for letter in pair)
        if d == e:
            raise bad_variant(placement, "tilt", variant)
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
    limit=lambda placement: (
        "" if placement.n_places > 2 else "with so few places every K gives identity"
    ),
)
def stride(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Put each task K places after the one before, around the machine; K coprime to the places."""
    step = int(variant) if re.fullmatch("[0-9]{1,9}", variant) else 0
    if math.gcd(step, placement.n_places) != 1:
        raise bad_variant(placement, "stride", variant)
    return np.arange(placement.n_tasks) * step % placement.n_places // placement.capacity


def _axes(placement: Placement, family: str, word: str) -> list[int]:
    """Axis of each letter; dimensions that the word leaves out must have one coordinate."""
    shape = (*placement.torus.shape, placement.capacity)
    letters = placement.letters
    absent = [axis for axis, letter in enumerate(letters) if letter not in word]
    if (
        len(set(word)) != len(word)
        or set(word) - set(letters)
        or any(shape[axis] > 1 for axis in absent)
    ):
        raise bad_variant(placement, family, word)
    return absent + [letters.index(letter) for letter in word]
