"""Placements that walk the torus line by line: permuted, zigzag, tilted, or with a stride.

Machines have words of their own for the order in which tasks fill them. On Blue Gene/Q ``ABCDET``
fills the cores of a node first: the last letter varies fastest. On Blue Gene/L and /P ``XYZT``
walks along X first: the first letter varies fastest. On Fugaku ``rank-map-bynode=XYZ`` walks along
X first and gives each node one rank before the next comes round; ``rank-map-bychip:XYZ`` fills a
node first, and ``--vcoordfile`` takes any other placement. Names of strategies such as
``permute-XYZT`` mean the same on every machine: the last letter varies fastest.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.validation import whole_sizes

from .. import machines
from ..comm_graph import CommGraph, Workload
from ..task_mapping import TaskMapping, check_room, min_capacity
from ..torus import Torus
from .orders import loop, permuted, snake
from .orders import zigzag as zigzag_order
from .registry import Placement, Rng, VariantError, make, register

_ORDER = (
    "LETTERS: the dimensions and T, the slots (here {letters}), in an order, the last varying "
    "fastest; what has size 1 may be left out"
)


@register("identity")
def identity(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill one node after the other in C order."""
    return np.arange(placement.n_tasks) // placement.capacity


def _long_letters(placement: Placement) -> list[str]:
    return [a for a, size in zip(placement.letters, placement.shape, strict=True) if size > 1]


def _letter_orders(placement: Placement) -> list[str]:
    """Orders of the letters that make a difference; with T, T last, first, and in between."""
    letters = _long_letters(placement)
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


def _zigzag_orders(placement: Placement) -> list[str]:
    letters = _long_letters(placement)
    return ["".join(letters), *_letter_orders(placement)] if len(letters) > 1 else []


@register("permute-LETTERS", _letter_orders, example="permute-ZYX", parameters=_ORDER)
def permute(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill places line by line, the dimension of the last letter (T: slots) varying fastest."""
    axes = axes_of(variant, placement.letters, placement.shape)
    return permuted(placement.shape, axes)[: placement.n_tasks] // placement.capacity


@register("zigzag-LETTERS", _zigzag_orders, example="zigzag-XYZ", parameters=_ORDER)
def zigzag(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill places line by line as `permute`, every other line backwards."""
    axes = axes_of(variant, placement.letters, placement.shape)
    return zigzag_order(placement.shape, axes)[: placement.n_tasks] // placement.capacity


def _tilt_names(placement: Placement) -> list[str]:
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
    _tilt_names,
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


def _stride_names(placement: Placement) -> list[str]:
    n_places = placement.n_places
    wanted = {round(n_places ** (k / 12)) for k in range(1, 12)}
    near = (next((s for s in range(w, n_places) if math.gcd(s, n_places) == 1), 1) for w in wanted)
    return [str(step) for step in sorted(set(near)) if 1 < step < n_places]


@register(
    "stride-K",
    _stride_names,
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


def axes_of(word: str, letters: str, shape: Sequence[int]) -> list[int]:
    """Return the axis of each letter of a word, behind those that it may leave out, of size 1."""
    absent = [axis for axis, letter in enumerate(letters) if letter not in word]
    is_known = len(set(word)) == len(word) and set(word) <= set(letters)
    if not is_known or any(shape[axis] > 1 for axis in absent):
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
        raise InputError("no order of this machine", found=word, expected=_expected_words(torus))
    capacity = tasks_per_node or min_capacity(n_tasks or 1, torus.usable_nodes.size)
    check_room(n_tasks or 1, torus.n_nodes, capacity)
    axes = [f"{torus.axes}T".index(letter) for letter in letters]
    place = permuted((*torus.shape, capacity), axes)[:n_tasks]
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


def _expected_words(torus: Torus) -> str:
    word = f"{torus.axes}T"
    if torus.name in _FUJITSU:
        return f"rank-map-bynode={torus.axes} or rank-map-bychip:{torus.axes}, in any order"
    if torus.name in _FIRST_FASTEST:
        return f"the letters {word} in any order, the first varying fastest"
    if torus.name in _LAST_FASTEST:
        return f"the letters {word} in any order, the last varying fastest"
    return f"a strategy such as permute-{word}: {torus} has no words of its own"


# Placements of a job on Fugaku that no order of letters gives, as candidates for a vcoordfile
# beside walks over its shape, which fold a chain or ring of ranks into it.
_JOB_STRATEGIES = ("bisect-refined", "greedy-heaviest")
_TOFU_UNIT = (2, 3, 2)


def job_torus(
    shape: Sequence[int], coords: NDArray[np.int64] | None = None
) -> tuple[Torus, NDArray[np.int32]]:
    """Return the network of a job, and the network's node of each node of the job.

    Without coordinates it is the torus that the job asks for; sides of one or two nodes are lines.
    With the coordinates of its nodes in the machine, ``(n_nodes, 6)`` in C order of the shape, it
    is the box of the machine around them, whose X, Y and Z do not wrap.
    """
    sizes = whole_sizes(shape, "torus shape")
    if not 1 <= len(sizes) <= 3:
        raise InputError("bad Fugaku job shape", found=sizes, expected="1 or 2 or 3 sizes")
    n_nodes = int(np.prod(sizes))
    if coords is None:
        torus = machines.tofu_d(sizes, wrap=tuple(size > 2 for size in sizes))
        return torus, np.arange(n_nodes, dtype=np.int32)
    if coords.shape != (n_nodes, 6):
        found = " x ".join(map(str, coords.shape))
        expected = f"a line of X Y Z a b c for each of the job's {n_nodes} nodes"
        raise InputError("bad coordinates of a job", found=found, expected=expected)
    inside = (coords[:, 3:] >= 0) & (coords[:, 3:] < np.array(_TOFU_UNIT))
    if not inside.all() or len(np.unique(coords, axis=0)) != n_nodes:
        expected = "different nodes, a below 2, b below 3, c below 2"
        raise InputError("bad coordinates of a job", expected=expected)
    low = coords[:, :3].min(axis=0)
    box = machines.tofu_d(
        (*(coords[:, :3].max(axis=0) - low + 1).tolist(), *_TOFU_UNIT), wrap=False
    )
    return box, box.node(np.column_stack([coords[:, :3] - low, coords[:, 3:]]))


def job_mappings(
    traffic: Workload | CommGraph,
    shape: Sequence[int],
    coords: NDArray[np.int64] | None = None,
) -> tuple[list[TaskMapping], dict[str, TaskMapping]]:
    """Return the rank orders of a job, on the network and in the job's own shape."""
    torus, place = job_torus(shape, coords)
    asked, _ = job_torus(shape)
    job, n_tasks = Torus(asked.shape), traffic.n_tasks
    nodes: dict[str, NDArray[Any]] = {}
    for letters in itertools.permutations(job.axes):
        word = f"rank-map-bynode={''.join(letters)}"
        nodes[word] = ordered(word, asked, n_tasks).node
    nodes |= _shape_walks(job, n_tasks)
    if coords is None:
        nodes |= {name: make(name, traffic, torus).node for name in _JOB_STRATEGIES}
    mappings = [TaskMapping(place[node], torus, name=name) for name, node in nodes.items()]
    return mappings, {name: TaskMapping(node, job, name=name) for name, node in nodes.items()}


def _shape_walks(job: Torus, n_tasks: int) -> dict[str, NDArray[np.int64]]:
    """The job's node of each rank on walks over its shape: a snake, and a loop if it exists."""
    shape = job.shape
    long = [d for d, size in enumerate(shape) if size > 1]
    # A loop needs an even size first: the walk goes there and back along that dimension.
    even_first = sorted(long, key=lambda d: shape[d] % 2)
    found = {}
    for name, walk, dims in (("loop", loop, even_first), ("snake", snake, long)):
        cells = walk([shape[d] for d in dims]) if len(long) > 1 else None
        if cells is not None:
            nodes = cells @ job.node_strides[dims]
            found[name] = np.asarray(nodes[np.arange(n_tasks) % nodes.size], dtype=np.int64)
    return found
