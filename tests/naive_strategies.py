"""Slow, obvious twins of patterns and strategies."""

from __future__ import annotations

import itertools
from collections import defaultdict


def halo(grid, offsets, periodic):
    """Bytes by (src, dst), filled neighbour by neighbour; ``offsets`` maps to bytes."""
    cells = list(itertools.product(*(range(size) for size in grid)))
    number = {cell: i for i, cell in enumerate(cells)}
    edges = defaultdict(float)
    for cell in cells:
        for offset, nbytes in offsets.items():
            far = tuple(c + o for c, o in zip(cell, offset, strict=True))
            if periodic:
                far = tuple(c % size for c, size in zip(far, grid, strict=True))
            if far in number and far != cell:
                edges[number[cell], number[far]] += nbytes
    return dict(edges)


def as_dictionary(comm):
    """Bytes of a CommGraph by (src, dst)."""
    return {
        (s, d): b
        for s, d, b in zip(comm.src.tolist(), comm.dst.tolist(), comm.nbytes.tolist(), strict=True)
    }


def z_order(shape):
    """Sort the cells by their interleaved bits, written as text."""
    cells = list(itertools.product(*(range(size) for size in shape)))

    def interleaved(i):
        words = [format(c, "024b") for c in cells[i]]
        return "".join("".join(bits) for bits in zip(*words, strict=True))

    return sorted(range(len(cells)), key=interleaved)


def zigzag(shape):
    """Walk cell by cell: at the end of a row step in the next dimension and turn round."""
    if not shape:
        return [()]
    inner = zigzag(shape[1:])
    walk = []
    for c in range(shape[0]):
        walk += [(c, *rest) for rest in (inner if c % 2 == 0 else inner[::-1])]
    return walk


def all_mappings(n_tasks, n_nodes, capacity):
    """Every choice of nodes that no node's capacity forbids."""
    return [
        nodes
        for nodes in itertools.product(range(n_nodes), repeat=n_tasks)
        if all(nodes.count(node) <= capacity for node in set(nodes))
    ]


def hop_bytes(comm, torus, node):
    """Sum over edges of bytes times hops."""
    return sum(
        b * int(torus.distance(node[s], node[d])) for (s, d), b in as_dictionary(comm).items()
    )
