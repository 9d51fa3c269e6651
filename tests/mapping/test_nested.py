"""Nested blocks of the task grid on nested blocks of the torus."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toruscast import InputError
from toruscast.mapping import CommGraph, Torus, patterns, strategies
from toruscast.mapping.strategies.orders import list_boxes


def cell_order(shape, levels):
    """Slow twin: sort cells by (block, within the block), level by level; rows only.

    ``levels``: (kind, numbers) outermost first, as in a name.
    """

    def key(cell):
        sizes, place, keys = shape, cell, []
        for kind, numbers in levels:
            inner = (
                numbers
                if kind == "tile"
                else tuple(n // k for n, k in zip(sizes, numbers, strict=True))
            )
            counts = tuple(n // k for n, k in zip(sizes, inner, strict=True))
            by = counts if kind == "mod" else inner
            block = tuple(
                c % k if kind == "mod" else c // k for c, k in zip(place, by, strict=True)
            )
            place = tuple(
                c // k if kind == "mod" else c % k for c, k in zip(place, by, strict=True)
            )
            keys.append(block)
            sizes = inner
        return (*keys, place)

    return sorted(itertools.product(*map(range, shape)), key=key)


@st.composite
def nestings(draw):
    """Two shapes of as many cells, and blocks within blocks of both, of as many cells too."""
    exponents = draw(st.lists(st.integers(0, 2), min_size=2, max_size=3))
    shapes = [tuple(2**e for e in draw(st.permutations(exponents)))] * 2
    shapes[1] = tuple(2**e for e in draw(st.permutations([*exponents, 0])))
    wholes, levels = list(shapes), ([], [])
    for _ in range(draw(st.integers(1, 2))):
        volume = 2 ** draw(st.integers(0, sum(exponents)))
        if math.prod(wholes[0]) % volume:
            break
        for side in (0, 1):
            box = draw(st.sampled_from(list_boxes(wholes[side], volume)))
            kind = draw(st.sampled_from(["tile", "divide", "mod"]))
            counts = tuple(n // k for n, k in zip(wholes[side], box, strict=True))
            levels[side].append((kind, box if kind == "tile" else counts))
            wholes[side] = box
    return shapes, levels


@settings(max_examples=150, deadline=None)
@given(nestings())
def test_blocks_are_those_of_the_twin(case):
    shapes, levels = case
    if not levels[0]:
        return
    grid, (*nodes, slots) = shapes
    comm = CommGraph(math.prod(grid), [], [], [], grid=grid)
    torus = Torus(tuple(nodes))
    words = [
        "_".join(["row", *(f"{kind}{'x'.join(map(str, k))}_row" for kind, k in side)])
        for side in levels
    ]
    mapping = strategies.make(f"nested-{'-'.join(words)}", comm, torus, tasks_per_node=slots)
    tasks, places = (cell_order(s, side) for s, side in zip(shapes, levels, strict=True))
    for task, place in zip(tasks, places, strict=True):
        here = mapping.node[np.ravel_multi_index(task, grid)]
        assert torus.coords[here].tolist() == list(place[:-1])


GRID = patterns.halo_2d((4, 4), 8)
ORDERS = [
    # 2x2 blocks of the grid on the rows of a ring of 4x4, each block's cells as named.
    ("row", [0, 1, 2, 3]),
    ("zigzag", [0, 1, 3, 2]),
    ("hilbert", [0, 1, 3, 2]),
    ("zorder", [0, 1, 2, 3]),
    ("order10", [0, 2, 1, 3]),
    # Shifting axis 0 by the coordinate along axis 1 exchanges (0, 1) and (1, 1).
    ("tilt01", [0, 3, 2, 1]),
    ("tilt012", [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("word", "order"), ORDERS)
def test_orders_within_a_block(word, order):
    name = f"nested-row_tile2x2_{word}-row_tile1x4x1_row"
    node = strategies.make(name, GRID, Torus((4, 4))).node
    # The first block holds tasks 0, 1, 4, 5; its cells are counted 0 to 3.
    first = np.array([0, 1, 4, 5])[order]
    assert node[first].tolist() == [0, 1, 2, 3]


BAD = """
row-row row_tile2x2_row row_tile2x2-row_tile2x2x1 row_tile3x2_row-row_tile2x3x1_row
row_tile2x2_row-row_tile2x1x1_row row_tile2x2_row-row_tile2x2_row
row_tile2x2_row-row_tile2x2x1_row_tile1x1x1_row row_tile0x2_row-row_tile2x2x1_row
row_tile2x2_rows-row_tile2x2x1_row row_tile2x2_order1-row_tile2x2x1_row
row_tile2x2_order12-row_tile2x2x1_row row_tile2x2_order11-row_tile2x2x1_row
row_tile2x2_tilt00-row_tile2x2x1_row row_tile2x2_tilt02-row_tile2x2x1_row
row_tile2x2_tilt01x2-row_tile2x2x1_row row_tile2x2_row-row_tile2x2x1_orderXZ
row_cut2x2_row-row_tile2x2x1_row row_tile999999999x2_row-row_tile2x2x1_row
"""


@pytest.mark.parametrize("variant", BAD.split())
def test_others_are_refused(variant):
    with pytest.raises(InputError):
        strategies.make(f"nested-{variant}", GRID, Torus((4, 4)))


def test_kinds_choose_families():
    torus = Torus((4, 4, 4))
    comm = patterns.halo_3d((4, 8, 8), 8)
    kinds = ("permute", "tilt", "nested")
    mappings = strategies.sample(comm, torus, n=60, kinds=kinds)
    assert {m.name.partition("-")[0] for m in mappings} == set(kinds)
    assert len({m.node.tobytes() for m in mappings}) == 60
    for mapping in mappings[::7]:
        again = strategies.make(mapping.name, comm, torus)
        np.testing.assert_array_equal(again.node, mapping.node)
    mixed = strategies.sample(comm, torus, n=40, kinds=["nested", "swap", "random"])
    shares = [sum(m.name.startswith(kind) for m in mixed) for kind in ("nested", "swap", "random")]
    assert shares == [22, 13, 5]
    assert not any(m.name.startswith("nested") for m in strategies.sample(comm, torus, n=40))
    names = strategies.variants(comm, torus, kinds="nested")
    assert len(names) == len(set(names)) == 600


@pytest.mark.parametrize("kinds", [["rubik"], [], ["identity"]])
def test_kinds_that_are_not_there(kinds):
    with pytest.raises(InputError):
        strategies.sample(GRID, Torus((4, 4)), n=5, kinds=kinds)


def test_tasks_that_leave_places_free():
    comm = patterns.halo_2d((2, 4), 8)
    node = strategies.make("nested-row_tile2x2_row-row_tile2x2x1_row", comm, Torus((4, 4))).node
    assert node.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(strategies.variants(comm, Torus((4, 4)), kinds=["nested"])) == 1
