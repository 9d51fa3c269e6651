"""Terms of the hypotheses that the sweep kept."""

# p = call paths, h = hypotheses, k = columns, q = parameters

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._enumerate import Sweep
from ._pairs import all_pairs

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def short_axes_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view with the last two axes, call paths and hypotheses, in front.

    They stay last in memory: loops over a handful of columns or points take several times as long.
    """
    return np.moveaxis(array, (-2, -1), (0, 1))


class Kept(NamedTuple):
    """Terms and prior of the hypotheses kept."""

    terms: Index  # (p, h, k, q)
    used: NDArray[np.bool_]  # (p, h, k)
    log_prior: Array  # (p, h)


def decode(chosen: Index, sweep: Sweep, log_prior: Sequence[Array]) -> Kept:
    """Return the terms of each column and the prior of the hypotheses with the given numbers."""
    width = max(3 if b.pairs else len(b.columns) for b in sweep.blocks)
    code = short_axes_last(np.zeros((width, len(log_prior), *chosen.shape), dtype=np.intp))
    used = short_axes_last(np.zeros((width, *chosen.shape), dtype=bool))
    prior = np.zeros(chosen.shape)
    starts = np.cumsum([0, *(b.size for b in sweep.blocks)])
    block_of = np.searchsorted(starts, chosen, side="right") - 1
    for number_of_block in np.unique(block_of):
        block, start = sweep.blocks[number_of_block], starts[number_of_block]
        path, place = np.nonzero(block_of == number_of_block)
        number = chosen[path, place] - start
        used[path, place, : 3 if block.pairs else len(block.columns)] = True
        prior[path, place] = block.log_prior
        if block.pairs:
            both = all_pairs(len(log_prior[0]))[:, number]
            code[path, place, 1:3, 0] = both.T + 1
            prior[path, place] += log_prior[0][both].sum(axis=0) + log(2)
            continue
        for q, position in zip(
            block.active, np.unravel_index(number, block.shape) if block.active else (), strict=True
        ):
            term = sweep.picks[q][path, position]
            prior[path, place] += log_prior[q][term]
            for k, column in enumerate(block.columns):
                if q in column:
                    code[path, place, k, q] = term + 1
    return Kept(code, used, prior)
