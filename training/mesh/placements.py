"""Every place of a smaller mesh in a torus: the same layout moved and turned, ranked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import Torus

from .answer import MeshForecast
from .candidates import ALIKE
from .rank import step_time

# Places that are looked at, and nodes of a torus whose rest is measured.
_MOST, _MOST_NODES = 4096, 256


@dataclass(frozen=True, eq=False)
class MeshPlacement:
    """A place of the mesh.

    Attributes
    ----------
    nodes : ndarray of int, in the shape of the mesh
    corner : tuple of int
        The lowest coordinates of its nodes, rings counted from 0.
    layout : str
        How the axes lie, before it was moved.
    time : float
        Seconds that a step communicates, in closed form.
    rest : int
        Nodes of the largest box of devices that stays free; -1 on tori too large to look.
    """

    nodes: NDArray[np.int64]
    corner: tuple[int, ...]
    layout: str
    time: float
    rest: int


def placements(answer: MeshForecast) -> list[MeshPlacement]:
    """Return every place of the layouts of an answer: the fastest first, then by what stays free.

    A layout is moved along the dimensions, and turned where dimensions are alike. Of places with
    the same nodes the fastest counts.

    Raises
    ------
    InputError
        If there are very many.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> from toruscast.training.mesh import mesh
    >>> answer = mesh(Torus((2, 4), wrap=False), {"x": 4}, "x:exchange:4MB", simulate=0)
    >>> [(each.corner, each.rest) for each in placements(answer)][:3]
    [((0, 0), 4), ((0, 2), 4), ((0, 1), 2)]
    """
    torus, traffic = answer.torus, answer.traffic
    there = np.zeros(torus.n_nodes, dtype=np.bool_)
    there[answer.devices.nodes] = True
    found: dict[bytes, MeshPlacement] = {}
    number = 0
    for layout in answer.layouts:
        for nodes in _moved(torus, layout.nodes, there):
            number += 1
            if number > _MOST:
                expected = f"at most {_MOST}; a smaller --top, or a smaller torus"
                raise InputError("too many places of the mesh", found=number, expected=expected)
            time = step_time(nodes, torus, answer.axes, traffic, overlap=answer.overlap)
            key = np.sort(nodes, axis=None).tobytes()
            if key in found and found[key].time <= time * (1 + ALIKE):
                continue
            free = there.copy()
            free[nodes] = False
            corner = tuple(map(int, torus.coords[nodes.ravel()].min(axis=0)))
            rest = _largest_box(torus, free) if torus.n_nodes <= _MOST_NODES else -1
            found[key] = MeshPlacement(nodes, corner, layout.words, time, rest)
    fastest = min((each.time for each in found.values()), default=0.0) or 1.0
    # Times that differ by rounding alone are equal.
    step = fastest * ALIKE
    return sorted(
        found.values(), key=lambda each: (round(each.time / step), -each.rest, each.corner)
    )


def _moved(
    torus: Torus, nodes: NDArray[np.int64], there: NDArray[np.bool_]
) -> Iterator[NDArray[np.int64]]:
    """Give the nodes of a layout turned and moved in every way that stays on devices."""
    coords = torus.coords[nodes.ravel()].astype(np.int64)
    seen: set[bytes] = set()
    size = np.array(torus.shape)
    for order in _turns(torus):
        turned = coords[:, order]
        for move in product(*(range(n) for n in torus.shape)):
            moved = turned - turned.min(axis=0) * ~np.array(torus.wrap) + move
            outside = (moved >= size) & ~np.array(torus.wrap)
            if outside.any():
                continue
            place = torus.node(moved % size).astype(np.int64)
            if there[place].all() and place.tobytes() not in seen:
                seen.add(place.tobytes())
                yield place.reshape(nodes.shape)


def _turns(torus: Torus) -> Iterator[list[int]]:
    """Give the orders of the dimensions in which the torus is the same."""
    alike = list(zip(torus.shape, torus.wrap, torus.bandwidth, strict=True))
    for order in permutations(range(torus.ndim)):
        if [alike[d] for d in order] == alike and (list(order) == sorted(order) or not torus.twist):
            yield list(order)


def _largest_box(torus: Torus, free: NDArray[np.bool_]) -> int:
    """Nodes of the largest box that is free."""
    best = 0
    begins = [(0, 1, free.reshape(torus.shape))]
    while begins:
        d, volume, grid = begins.pop()
        if d == torus.ndim:
            best = max(best, volume if grid.any() else 0)
            continue
        whole = grid
        for length in range(1, torus.shape[d] + 1):
            if length > 1:
                following = np.roll(grid, 1 - length, axis=d)
                if not torus.wrap[d]:
                    index = [slice(None)] * torus.ndim
                    index[d] = slice(torus.shape[d] - length + 1, None)
                    following[tuple(index)] = False
                whole = whole & following
            if not whole.any():
                break
            begins.append((d + 1, volume * length, whole))
    return best
