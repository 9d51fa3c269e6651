"""Layouts: which node of a torus each place of a logical mesh is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from ..torus import Torus
from .axes import MeshAxes
from .curves import Curve, loop, snake
from .pieces import Pieces, first_nodes, names_of, node_strides

# Orders of the axes in which a walk is cut; of five axes these are all.
_MOST_NESTS = 120


@dataclass(frozen=True, eq=False)
class Laid:
    """An axis on the torus: its pieces of the dimensions, and the order in which it walks them."""

    pieces: Pieces
    curve: Curve

    def offsets(self, torus: Torus) -> NDArray[np.int64]:
        """Return how far each place of the axis is from the first, in node numbers, ``(size,)``."""
        strides = node_strides(torus)
        apart = [strides[piece.dimension] * piece.stride for piece in self.pieces]
        return np.asarray(self.curve.steps @ np.array(apart, dtype=np.int64))

    def in_words(self, torus: Torus) -> str:
        """Return where it lies, in words."""
        names = names_of(torus, self.pieces)
        return names if self.curve.name == "in order" else f"{names}, {self.curve.name}"


def lines_along(torus: Torus, laid: Sequence[Laid]) -> NDArray[np.int64]:
    """Return the nodes of every group along some axes, the last one fastest, ``(groups, n)``.

    Examples
    --------
    >>> from .pieces import Piece
    >>> from .curves import curves
    >>> lines_along(Torus((2, 4)), [Laid((Piece(1, 1, 4),), curves((4,))[1])]).tolist()
    [[0, 2, 3, 1], [4, 6, 7, 5]]
    """
    offsets = np.zeros(1, dtype=np.int64)
    for axis in laid:
        offsets = np.add.outer(offsets, axis.offsets(torus)).ravel()
    begin = first_nodes(torus, tuple(piece for axis in laid for piece in axis.pieces))
    return begin[:, None] + offsets


def mesh_of(torus: Torus, laid: Sequence[Laid]) -> NDArray[np.int64]:
    """Return the node of each place of the mesh whose axes lie so, in mesh shape."""
    nodes = np.zeros((), dtype=np.int64)
    for axis in laid:
        nodes = np.add.outer(nodes, axis.offsets(torus))
    return nodes


def cut_curves(
    torus: Torus, axes: MeshAxes, ours: NDArray[np.int64]
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Give meshes cut from one walk over all nodes that are ours, with a name each.

    The walk is a snake or a loop over the torus that leaves out what is not ours; it is cut to the
    axes, any of them fastest. Where there are more nodes than the mesh takes, the first are taken.
    """
    if torus.n_nodes == 1:
        yield "one device", np.zeros(axes.sizes, dtype=np.int64)
        return
    is_ours = np.zeros(torus.n_nodes, dtype=np.bool_)
    is_ours[ours] = True
    strides = node_strides(torus)
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
            for nest in islice(permutations(wide), _MOST_NESTS):
                sizes = [axes.sizes[a] for a in nest]
                folded = nodes.reshape(sizes).transpose(np.argsort(nest)).reshape(axes.sizes)
                key = folded.tobytes()
                if key not in seen:
                    seen.add(key)
                    inner = axes.names[nest[-1]] if nest else axes.names[-1]
                    letters = "".join(torus.axes[d] for d in reversed(order))
                    yield f"{name} over {letters}, {inner} fastest", folded
