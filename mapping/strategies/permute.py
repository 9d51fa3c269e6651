"""Placements line by line (permuted, zigzag, tilted, with a stride), and launchers' rank orders.

Launchers name rank orders differently. On Blue Gene/Q ``ABCDET`` fills the cores of a node first,
because the last letter varies fastest. On Blue Gene/L and /P ``XYZT`` starts along X, because the
first letter varies fastest. On Fugaku ``rank-map-bynode=XYZ`` starts along X and places one rank on
each node per pass, ``rank-map-bychip:XYZ`` fills a node first, and ``--vcoordfile`` accepts other
placements. In names of strategies such as ``permute-XYZT`` the last letter always varies fastest.
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
from toruscast.typing import Int32s, Ints
from toruscast.validation import whole_sizes

from .. import machines
from ..comm_graph import CommGraph, Workload
from ..task_mapping import TaskMapping, check_tasks_fit, min_capacity
from ..torus import Torus
from .orders import order_by_axes, order_zigzag, walk_loop, walk_snake
from .registry import Placement, Rng, VariantError, make, register

_LETTERS = (
    "LETTERS: dimensions, and T for the slots (here {letters}), in any order; the last varies "
    "fastest, and letters of size 1 are optional"
)


@register("identity")
def identity(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill the nodes one after the other in C order."""
    return np.arange(placement.n_tasks) // placement.capacity


def _list_long_letters(placement: Placement) -> list[str]:
    """Return the letters of the dimensions and the slots, if their size is above 1."""
    return [a for a, size in zip(placement.letters, placement.shape, strict=True) if size > 1]


def _list_letter_orders(placement: Placement) -> list[str]:
    """Return all orders of up to four letters; for more, rotations with T in three positions."""
    letters = _list_long_letters(placement)
    if len(letters) <= 4:
        return ["".join(order) for order in itertools.permutations(letters)][1:]
    dimensions = "".join(a for a in letters if a != "T")
    slot = "T" if "T" in letters else ""
    rotations = [dimensions[k:] + dimensions[:k] for k in range(len(dimensions))]
    rotations += [order[::-1] for order in rotations]
    orders = [slot + dimensions, dimensions[::-1] + slot]
    for k, order in enumerate(rotations):
        cut = 1 + k % (len(dimensions) - 1)
        orders += [slot + order, order[:cut] + slot + order[cut:], order + slot]
    return [order for order in dict.fromkeys(orders) if order != dimensions + slot]


def _list_zigzag_orders(placement: Placement) -> list[str]:
    letters = _list_long_letters(placement)
    return ["".join(letters), *_list_letter_orders(placement)] if len(letters) > 1 else []


@register("permute-LETTERS", _list_letter_orders, example="permute-ZYX", parameters=_LETTERS)
def permute(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill the slots line by line, with the dimension of the last letter varying fastest."""
    axes = parse_axes(variant, placement.letters, placement.shape)
    return order_by_axes(placement.shape, axes)[: placement.n_tasks] // placement.capacity


def _list_reflections(placement: Placement) -> list[str]:
    letters = [letter for letter in _list_long_letters(placement) if letter != "T"]
    sizes = range(1, len(letters) + 1)
    return ["".join(some) for k in sizes for some in itertools.combinations(letters, k)]


@register(
    "reflect-LETTERS",
    _list_reflections,
    example="reflect-X",
    parameters="LETTERS: some of the dimensions (here {dimensions})",
    sampled=False,
)
def reflect(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill the nodes in C order, with the coordinates of some dimensions reversed."""
    letters = placement.letters[:-1]
    if len({*variant}) < len(variant) or not {*variant} <= {*letters}:
        raise VariantError
    grid = np.arange(placement.torus.n_nodes).reshape(placement.torus.shape)
    nodes: NDArray[Any] = np.flip(grid, tuple(map(letters.index, variant))).ravel()
    return np.asarray(nodes[identity(placement, "", rng)])


@register("zigzag-LETTERS", _list_zigzag_orders, example="zigzag-XYZ", parameters=_LETTERS)
def zigzag(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Fill the slots line by line like `permute`, with alternate lines reversed."""
    axes = parse_axes(variant, placement.letters, placement.shape)
    return order_zigzag(placement.shape, axes)[: placement.n_tasks] // placement.capacity


def _list_tilts(placement: Placement) -> list[str]:
    """Return variants with one shear, such as "XY-1", small shifts first, then with two shears."""
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
    _list_tilts,
    example="tilt-XY-1",
    parameters="LETTERS: two of the dimensions (here {dimensions}), K: hops by which the first "
    "is shifted per step along the second; further -LETTERS-K are optional",
)
def tilt(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Shear the identity: shift the first dimension by K times the coordinate in the second.

    Further shears are optional, as in ``tilt-XY-1-YZ-2``.
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


def _list_strides(placement: Placement) -> list[str]:
    """Return up to eleven strides, evenly spaced on a logarithmic scale."""
    n = placement.n_places
    targets = {round(n ** (k / 12)) for k in range(1, 12)}
    # For each target, the first number from there on that is coprime to the number of slots.
    steps = {next((k for k in range(target, n) if math.gcd(k, n) == 1), 1) for target in targets}
    return [str(step) for step in sorted(steps) if 1 < step < n]


@register(
    "stride-K",
    _list_strides,
    example="stride-5",
    parameters="K: number of slots from one task to the next, coprime to the total of "
    "{places} slots",
)
def stride(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Place each task K slots after the previous one, modulo the number of slots."""
    step = int(variant) if re.fullmatch("[0-9]{1,9}", variant) else 0
    if math.gcd(step, placement.n_places) != 1:
        raise VariantError
    return np.arange(placement.n_tasks) * step % placement.n_places // placement.capacity


def parse_axes(word: str, letters: str, shape: Sequence[int]) -> list[int]:
    """Return the axes of a word's letters, preceded by omitted axes, which must have size 1."""
    absent = [axis for axis, letter in enumerate(letters) if letter not in word]
    is_known = len(set(word)) == len(word) and set(word) <= set(letters)
    if not is_known or any(shape[axis] > 1 for axis in absent):
        raise VariantError
    return absent + [letters.index(letter) for letter in word]


_FIRST_FASTEST = ("bluegene_l", "bluegene_p")
_LAST_FASTEST = ("bluegene_q",)
_FUJITSU = ("tofu_d", "k_computer")
_RANK_MAP = re.compile(r"rank-map-(bynode|bychip)[=:]([A-Za-z]+)")


def parse_rank_order(word: str, torus: Torus) -> str | None:
    """Convert a launcher's rank order to letters, last varying fastest; None for other words."""
    match = _RANK_MAP.fullmatch(word)
    if match and torus.name in _FUJITSU and sorted(match[2]) == sorted(torus.axes):
        letters = match[2][::-1]
        return f"T{letters}" if match[1] == "bynode" else f"{letters}T"
    if sorted(word) != sorted(f"{torus.axes}T"):
        return None
    if torus.name in _FIRST_FASTEST:
        return word[::-1]
    return word if torus.name in _LAST_FASTEST else None


def map_ranks(
    word: str, torus: Torus, n_tasks: int | None = None, tasks_per_node: int | None = None
) -> TaskMapping:
    """Return the mapping that a launcher's rank order defines."""
    letters = parse_rank_order(word, torus)
    if letters is None:
        expected = _describe_rank_orders(torus)
        raise InputError("not a rank order of this machine", found=word, expected=expected)
    capacity = tasks_per_node or min_capacity(n_tasks or 1, torus.usable_nodes.size)
    check_tasks_fit(n_tasks or 1, torus.n_nodes, capacity)
    axes = [f"{torus.axes}T".index(letter) for letter in letters]
    node, slot = np.divmod(order_by_axes((*torus.shape, capacity), axes)[:n_tasks], capacity)
    return TaskMapping(node, torus, slot=slot, tasks_per_node=capacity, name=word)


def explain_letters(name: str, torus: Torus) -> str:
    """Return a note on a strategy's name if the machine's launcher writes letters in reverse."""
    letters = name.partition("-")[2].partition("@")[0]
    if torus.name not in _FIRST_FASTEST or name.partition("-")[0] not in ("permute", "zigzag"):
        return ""
    if sorted(letters) != sorted(f"{torus.axes}T"):
        return f"{name}: the last letter varies fastest, unlike in the machine's rank orders"
    return (
        f"{name}: the last letter varies fastest; the machine's name of this order, with the first "
        f"varying fastest, is {letters[::-1]}"
    )


def _describe_rank_orders(torus: Torus) -> str:
    """Describe the form of the machine's rank orders, for error messages."""
    word = f"{torus.axes}T"
    if torus.name in _FUJITSU:
        return f"rank-map-bynode={torus.axes} or rank-map-bychip:{torus.axes}, in any order"
    if torus.name in _FIRST_FASTEST:
        return f"the letters {word} in any order, the first varying fastest"
    if torus.name in _LAST_FASTEST:
        return f"the letters {word} in any order, the last varying fastest"
    return f"a strategy such as permute-{word}, because {torus} has no named rank orders"


# Strategies to try for a vcoordfile on Fugaku, in addition to walks over the job's shape.
_JOB_STRATEGIES = ("bisect-refined", "greedy-heaviest")
_TOFU_UNIT = (2, 3, 2)


def job_torus(shape: Sequence[int], coords: Ints | None = None) -> tuple[Torus, Int32s]:
    """Return the torus of a Fugaku job, and the torus node that hosts each job node.

    Without ``coords``, the torus is the requested one; its dimensions of one or two nodes are
    meshes. If ``coords`` has the machine coordinates of the job's nodes, ``(n_nodes, 6)`` in C
    order of the shape, the torus is their bounding box, in which X, Y and Z do not wrap.
    """
    sizes = whole_sizes(shape, "torus shape")
    if not 1 <= len(sizes) <= 3:
        raise InputError("bad Fugaku job shape", found=sizes, expected="1 to 3 sizes")
    n_nodes = int(np.prod(sizes))
    if coords is None:
        torus = machines.tofu_d(sizes, wrap=tuple(size > 2 for size in sizes))
        return torus, np.arange(n_nodes, dtype=np.int32)
    if coords.shape != (n_nodes, 6):
        found = " x ".join(map(str, coords.shape))
        expected = f"a line of X Y Z a b c for each of the job's {n_nodes} nodes"
        raise InputError("bad coordinates of a job", found=found, expected=expected)
    is_valid = (coords[:, 3:] >= 0) & (coords[:, 3:] < np.array(_TOFU_UNIT))
    if not is_valid.all() or len(np.unique(coords, axis=0)) != n_nodes:
        expected = "different nodes, a below 2, b below 3, c below 2"
        raise InputError("bad coordinates of a job", expected=expected)
    low = coords[:, :3].min(axis=0)
    box = machines.tofu_d(
        (*(coords[:, :3].max(axis=0) - low + 1).tolist(), *_TOFU_UNIT), wrap=False
    )
    return box, box.node(np.column_stack([coords[:, :3] - low, coords[:, 3:]]))


def job_mappings(
    traffic: Workload | CommGraph, shape: Sequence[int], coords: Ints | None = None
) -> tuple[list[TaskMapping], dict[str, TaskMapping]]:
    """Return a Fugaku job's candidate mappings onto its torus and, by name, onto its shape.

    The candidates are all rank orders, walks over the shape and, if the job has the requested
    torus, mappings that depend on the traffic.
    """
    torus, torus_node = job_torus(shape, coords)
    requested, _ = job_torus(shape)
    job, n_tasks = Torus(requested.shape), traffic.n_tasks
    nodes: dict[str, NDArray[Any]] = {}
    for letters in itertools.permutations(job.axes):
        word = f"rank-map-bynode={''.join(letters)}"
        nodes[word] = map_ranks(word, requested, n_tasks).node
    nodes |= _walk_shape(job, n_tasks)
    if coords is None:
        nodes |= {name: make(name, traffic, torus).node for name in _JOB_STRATEGIES}
    mappings = [TaskMapping(torus_node[node], torus, name=name) for name, node in nodes.items()]
    return mappings, {name: TaskMapping(node, job, name=name) for name, node in nodes.items()}


def _walk_shape(job: Torus, n_tasks: int) -> dict[str, Ints]:
    """Return the ranks' nodes along a zigzag path and, if one exists, along a closed path."""
    shape = job.shape
    long = [d for d, size in enumerate(shape) if size > 1]
    # A loop requires an even first size.
    even_first = sorted(long, key=lambda d: shape[d] % 2)
    walks = {}
    for name, walk, dims in (("loop", walk_loop, even_first), ("snake", walk_snake, long)):
        cells = walk([shape[d] for d in dims]) if len(long) > 1 else None
        if cells is not None:
            nodes = cells @ job.node_strides[dims]
            walks[name] = np.asarray(nodes[np.arange(n_tasks) % nodes.size], dtype=np.int64)
    return walks
