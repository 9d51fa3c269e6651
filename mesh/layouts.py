"""Layouts: which node of a torus each place of a logical mesh is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping.strategies.orders import divisors, loop, snake
from toruscast.mapping.torus import TIE_RULES, Holes, Torus

from .traffic import MeshAxes


class DimensionPart(NamedTuple):
    """``size`` nodes along a dimension, ``stride`` apart."""

    dimension: int
    stride: int
    size: int


Pieces = tuple[DimensionPart, ...]


def splits(shape: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[Pieces, ...]]:
    """Give every way to cut the dimensions into pieces for axes of these sizes.

    An axis takes at most one piece of a dimension. The ways with the fewest cuts come first.
    """
    taken: list[list[DimensionPart]] = [[] for _ in sizes]

    def cut(dimension: int, left: tuple[int, ...]) -> Iterator[tuple[Pieces, ...]]:
        if dimension == len(shape):
            if all(size == 1 for size in left):
                yield tuple(tuple(pieces) for pieces in taken)
            return
        for parts in _factorisations(shape[dimension], left):
            stride, rest = 1, list(left)
            for axis, size in parts:
                taken[axis].append(DimensionPart(dimension, stride, size))
                stride *= size
                rest[axis] //= size
            yield from cut(dimension + 1, tuple(rest))
            for axis, _ in parts:
                taken[axis].pop()

    yield from cut(0, tuple(sizes))


@lru_cache(10_000)
def _factorisations(size: int, left: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """Cuts of a dimension among axes, the fewest first: (axis, size), each axis once at most."""
    if size == 1:
        return [()]
    found: list[tuple[tuple[int, int], ...]] = []
    for axis, most in enumerate(left):
        for part in divisors(math.gcd(size, most)):
            if part > 1:
                others = tuple(1 if a == axis else n for a, n in enumerate(left))
                found += [((axis, part), *rest) for rest in _factorisations(size // part, others)]
    return sorted(found, key=len)


def cell_of(torus: Torus, pieces: Pieces) -> Torus:
    """Return the part of a torus after which the lines along some pieces repeat, as a torus.

    No route between nodes of a line leaves it. It is the whole torus where links differ, rings are
    twisted, or other dimensions decide on ties.
    """
    if not is_uniform(torus):
        return torus
    shape = [1] * torus.ndim
    for dimension, stride, size in pieces:
        shape[dimension] = max(shape[dimension], stride * size)
    # Nodes of a line lie apart by less than the cell is long: half a ring at most, or all of it.
    return box_of(torus, shape)


def is_uniform(torus: Torus) -> bool:
    """Return whether routes along some dimensions depend on these alone."""
    return not (torus.twist or torus.holes or TIE_RULES[torus.tie].with_others)


def box_of(torus: Torus, shape: Sequence[int]) -> Torus:
    """Return a box of a torus, whose rings close where it spans a whole dimension."""
    triples = zip(torus.wrap, shape, torus.shape, strict=True)
    wrap = tuple(w and part == size for w, part, size in triples)
    return replace(torus, shape=tuple(shape), wrap=wrap, zones=(), twist=(), holes=Holes())


def link_in(torus: Torus, cell: Torus, link: int) -> int:
    """Return the link of a torus that is one of its first cell."""
    node, port = divmod(link, 2 * torus.ndim)
    return int(torus.node(cell.coords[node])) * 2 * torus.ndim + port


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


class Curve(NamedTuple):
    """An order of the cells of a grid."""

    name: str
    steps: NDArray[np.int64]  # (cells, dimensions of the grid)


def curves(sizes: Sequence[int]) -> list[Curve]:
    """Return the orders of a grid's cells that an axis may take, the plainest first."""
    if len(sizes) == 0:
        return [Curve("in order", np.zeros((1, 0), dtype=np.int64))]
    if len(sizes) == 1:
        line = np.arange(sizes[0])[:, None]
        # There over the even places and back over the odd ones: no step is longer than two.
        folded = np.concatenate([line[::2], line[1::2][::-1]])
        return [Curve("in order", line), Curve("folded", folded)][: 2 if sizes[0] > 3 else 1]
    found = []
    orders = list(permutations(range(len(sizes))))
    for name, walk in (("in order", _in_order), ("a loop", loop), ("a snake", snake)):
        for order in orders:
            cells = walk([sizes[d] for d in order])
            if cells is not None:
                back = np.empty_like(cells)
                back[:, list(order)] = cells
                found.append(Curve(name, back))
    return found


def _in_order(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.indices(sizes).reshape(len(sizes), -1).T


# Orders of the axes in which a walk is cut; of five axes these are all.
_MAX_NESTS = 120


@dataclass(frozen=True, eq=False)
class AxisLayout:
    """An axis on the torus: its pieces of the dimensions, and the order in which it walks them."""

    pieces: Pieces
    curve: Curve

    def offsets(self, torus: Torus) -> NDArray[np.int64]:
        """Return how far each place of the axis is from the first, in node numbers, ``(size,)``."""
        strides = torus.node_strides
        apart = [strides[piece.dimension] * piece.stride for piece in self.pieces]
        return np.asarray(self.curve.steps @ np.array(apart, dtype=np.int64))

    def in_words(self, torus: Torus) -> str:
        """Return where it lies, in words."""
        words = []
        for dimension, stride, size in self.pieces:
            letter = torus.axes[dimension]
            if size == torus.shape[dimension]:
                words.append(letter)
            elif stride == 1:
                words.append(f"{size} of {letter}")
            elif stride * size == torus.shape[dimension]:
                words.append(f"every {_nth(stride)} of {letter}")
            else:
                words.append(f"{size} of every {_nth(stride)} of {letter}")
        names = ", ".join(words) or "one device"
        return names if self.curve.name == "in order" else f"{names}, {self.curve.name}"


def lines_along(torus: Torus, laid: Sequence[AxisLayout]) -> NDArray[np.int64]:
    """Return the nodes of every group along some axes, the last one fastest, ``(groups, n)``."""
    offsets = np.zeros(1, dtype=np.int64)
    for axis in laid:
        offsets = np.add.outer(offsets, axis.offsets(torus)).ravel()
    begin = np.zeros(1, dtype=np.int64)
    for d, (size, apart) in enumerate(zip(torus.shape, torus.node_strides, strict=True)):
        coords = np.arange(size)
        for dimension, stride, length in (piece for axis in laid for piece in axis.pieces):
            if dimension == d:
                coords = coords[(coords // stride) % length == 0]
        begin = np.add.outer(begin, coords * apart).ravel()
    return begin[:, None] + offsets


def mesh_of(torus: Torus, laid: Sequence[AxisLayout]) -> NDArray[np.int64]:
    """Return the node of each place of a mesh with this axis layout, in mesh shape."""
    nodes = np.zeros((), dtype=np.int64)
    for axis in laid:
        nodes = np.add.outer(nodes, axis.offsets(torus))
    return nodes


def cut_curves(
    torus: Torus, axes: MeshAxes, ours: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], str]]:
    """Give meshes cut from one walk over all nodes that are ours, with a name each.

    The walk is a snake or a loop over the torus; it is cut to the axes, any of them fastest. A
    mesh that is smaller takes the first nodes.
    """
    if torus.n_nodes == 1:
        yield np.zeros(axes.sizes, dtype=np.int64), "one device"
        return
    is_ours = np.isin(np.arange(torus.n_nodes), ours)
    strides = torus.node_strides
    long = [d for d, size in enumerate(torus.shape) if size > 1]
    wide = [a for a, size in enumerate(axes.sizes) if size > 1]
    seen: set[bytes] = set()
    for name, walk in (("a loop", loop), ("a snake", snake)):
        for order in permutations(long):
            cells = walk([torus.shape[d] for d in order])
            if cells is None:
                continue
            nodes = cells @ strides[list(order)]
            nodes = nodes[is_ours[nodes]][: axes.n_tasks]
            for nest in islice(permutations(wide), _MAX_NESTS):
                sizes = [axes.sizes[a] for a in nest]
                folded = nodes.reshape(sizes).transpose(np.argsort(nest)).reshape(axes.sizes)
                key = folded.tobytes()
                if key not in seen:
                    seen.add(key)
                    inner = axes.names[nest[-1]] if nest else axes.names[-1]
                    letters = "".join(torus.axes[d] for d in reversed(order))
                    yield folded, f"{name} over {letters}, {inner} fastest"


def boxes_in(
    torus: Torus, n: int, ours: NDArray[np.int64]
) -> Iterator[tuple[Torus, NDArray[np.int64]]]:
    """Give the boxes of n nodes that are all ours, each as a torus of its own and its nodes.

    A box lies at the first place where all of its nodes are ours. The most compact come first.

    Examples
    --------
    >>> for box, nodes in boxes_in(Torus((4, 4), wrap=False), 4, np.arange(2, 16)):
    ...     print(box, nodes.tolist())
    2mx2m [2, 3, 6, 7]
    1mx4m [4, 5, 6, 7]
    4mx1m [2, 6, 10, 14]
    """
    is_ours = np.isin(np.arange(torus.n_nodes), ours)
    shapes = [
        shape
        for shape in product(*([b for b in divisors(n) if b <= s] for s in torus.shape))
        if math.prod(shape) == n
    ]
    for shape in sorted(shapes, key=lambda shape: (max(shape), shape)):
        inside = np.stack(np.unravel_index(np.arange(n), shape), axis=1)
        free = [
            range(1 if b == s else s if w else s - b + 1)
            for b, s, w in zip(shape, torus.shape, torus.wrap, strict=True)
        ]
        for corner in product(*free):
            nodes = torus.node((inside + corner) % torus.shape).astype(np.int64)
            if is_ours[nodes].all():
                yield box_of(torus, shape), nodes
                break


def jax_program(ids: NDArray[np.int64], axes: MeshAxes) -> str:
    """Return the lines that make the mesh in a JAX program.

    The numbers are places among all devices sorted by their ids: ``jax.devices()`` itself lists
    those of a slice host by host.
    """
    literal = np.array2string(ids, separator=", ", threshold=ids.size + 1, max_line_width=10**9)
    literal = re.sub(r"\n+", "\n" + " " * len("ids = np.array("), literal)
    return (
        "import jax\nimport numpy as np\n\n"
        f"ids = np.array({literal})\n"
        "devices = np.array(sorted(jax.devices(), key=lambda device: device.id))\n"
        f"mesh = jax.sharding.Mesh(devices[ids], {axes.names!r})\n"
    )


def torch_program(ids: NDArray[np.int64], axes: MeshAxes) -> str:
    """Return the lines that make the mesh in a program of PyTorch/XLA.

    Its numbers of devices are those in their names, TPU:0, TPU:1, ...

    Examples
    --------
    >>> print(torch_program(np.array([[0, 1], [3, 2]]), MeshAxes(("x", "y"), (2, 2))), end="")
    import numpy as np
    import torch_xla.distributed.spmd as xs
    <BLANKLINE>
    mesh = xs.Mesh(np.array([0, 1, 3, 2]), (2, 2), ('x', 'y'))
    """
    flat = ", ".join(map(str, ids.ravel().tolist()))
    return (
        "import numpy as np\nimport torch_xla.distributed.spmd as xs\n\n"
        f"mesh = xs.Mesh(np.array([{flat}]), {axes.sizes!r}, {axes.names!r})\n"
    )
