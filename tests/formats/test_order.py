"""The order of the lines of a file does not change the graph or mapping."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_cases import examples

import toruscast as tc

N = 6
PAIRS = st.tuples(st.integers(0, N - 1), st.integers(0, N - 1))
EDGES = st.lists(
    st.tuples(PAIRS, st.one_of(st.integers(1, 2**63), st.floats(1e-3, 1e12))),
    min_size=1,
    max_size=25,
)


def edges(rows):
    return "".join(f"{s} {d} {b!r}\n" for (s, d), b in rows)


def table(rows):
    return "src,dst,bytes\n" + "".join(f"{s},{d},{b!r}\n" for (s, d), b in rows)


def matrix_market(rows):
    head = f"%%MatrixMarket matrix coordinate real general\n{N} {N} {len(rows)}\n"
    return head + "".join(f"{s + 1} {d + 1} {b!r}\n" for (s, d), b in rows)


@pytest.mark.parametrize(
    ("suffix", "written", "how"),
    [
        ("edges", edges, {"format": "edges", "n_tasks": N}),
        ("csv", table, {"n_tasks": N}),
        ("mtx", matrix_market, {}),
    ],
)
def test_lines_in_any_order_are_the_same_graph(tmp_path, suffix, written, how):
    file = tmp_path / f"a.{suffix}"

    @examples(40)
    @given(EDGES, st.randoms(use_true_random=False))
    def check(rows, rng):
        found = []
        for _ in range(2):
            file.write_text(written(rows))
            found.append(tc.read_comm(file, duplicates="sum", **how))
            rng.shuffle(rows)
        for name in ("src", "dst", "nbytes", "n_messages"):
            np.testing.assert_array_equal(*(getattr(comm, name) for comm in found))

    check()
