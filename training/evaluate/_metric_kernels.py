"""Counting of inversions for the rank metrics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel


# n = values, m = distinct ranks
@kernel
def count_inversions(ranks: NDArray[np.int64], n_ranks: int) -> int:
    """Pairs ``j < i`` with ``ranks[j] > ranks[i]``, by a Fenwick tree: (n), m -> ()."""
    tree = np.zeros(n_ranks + 1, dtype=np.int64)
    inversions = 0
    for i in range(ranks.size):
        not_greater = 0
        place = ranks[i] + 1
        while place > 0:
            not_greater += tree[place]
            place -= place & -place
        inversions += i - not_greater
        place = ranks[i] + 1
        while place <= n_ranks:
            tree[place] += 1
            place += place & -place
    return inversions
