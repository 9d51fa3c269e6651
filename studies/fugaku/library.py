"""What each call of the bine library does beside its messages, as its source has it.

HLC-Lab/bine_trees_fugaku, lib, at the commit that the experiment names.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Bytes above which receivers say that they are ready.
_NOTICE = 1024
# Bytes that one put can send.
_PUT = 2.0**24
# Bytes up to which the compiled loop of a sum is not shared out over the cores: 1024 numbers. On
# eight nodes 1024 are not, 1366 are.
_NARROW = 4096
# Caches of A64FX (A64FX Microarchitecture Manual): ways of level 1, bytes of one of them and of a
# line, and bytes of level 2, which the cores of a group share.
_WAYS, _WAY, _LINE, _LEVEL_2 = 4, 16384, 256, 2.0**23
# Bytes of an entry of a table of blocks, of a remote address, and of the numbers that are sent.
_BLOCK, _ADDRESS, _NUMBER = 16, 8, 4


def of_library(table: pd.DataFrame) -> dict[str, Floats]:
    """Return what each call of the bine library does beside its messages.

    Parameters
    ----------
    table : DataFrame
        ``code, layer, nbytes, segment, rounds, ports, in_turn, n_tasks, ndim``.

    Returns
    -------
    dict of str to ndarray, shape (n_rows,)
        ``notices`` of receivers that they are ready, one after the other; ``addresses``, bytes that
        a call gathers from all tasks before it starts; ``swaps`` of addresses with partners;
        ``timers`` made in the steps; ``entries`` written to tables, and ``evictions``, those that
        drive a line out of the cache each; ``divisions``; ``blocks`` looked at and moved one by
        one; ``ranks`` whose place in the tree is computed for a block; ``near`` and ``far`` places,
        in the level 2 cache and in memory, from which or to which permuted blocks go; ``surplus``
        bytes sent in vain.

    Notes
    -----
    - Where data go straight into the user's buffer, an allgather first tells everybody where each
      port may write (two words a port, written to two arrays a port). Where only partners need to
      know, they swap the words, twice if some ports run mirrored.
    - Wide messages wait in every round for word that the buffer is free; on one vector, not on
      blocks, for which there is room for all rounds.
    - Collectives on blocks write down size and place of each block for each port: port after port
      if they work on one vector, and else all ports of a block before the next block, for which an
      allgather or a reduce-scatter divides. These, like the addresses, go to an array a port; where
      such arrays start a multiple of the cache's way apart and are more than it has ways, each
      entry evicts the line that the next one needs. The blocks are then moved one by one.
    - All-to-alls in log(n) steps look at each block in each step, and once more at the end; over
      MPI the bine one computes a block's place in the tree anew each time.
    - Only the allreduce by halving makes a timer, with its stream of text, in each step.
    - Where the numbers of a vector do not divide among ports and tasks, a broadcast by scatter
      means the last block to be longer by what is left, but sends as much more with each block of
      the half that the last is in.
    """
    has = _Codes(table)
    n, ports, rounds = (table[name].to_numpy(float) for name in ("n_tasks", "ports", "rounds"))
    nbytes = table["nbytes"].to_numpy(float)
    buckets = has(" RING-")
    vector = has("allreduce (BINE|RECDOUB)|REDUCE_SCATTER_GATHER-utofu")
    blocks = has("(BINE|RECDOUB)-(VEC_|BINOMIAL_TREE_CONT)") & ~has("CONT_SEND")
    direct = has("bcast .*(BINOMIAL_TREE|SCATTER_ALLGATHER)-utofu|_BLOCKS-utofu") | (
        has("SCATTER_GATHER-utofu") | buckets
    )
    halving = has("allreduce (BINE|RECDOUB)-B_CONT-utofu")
    whole = has("reduce (BINE|RECDOUB)-(BINOMIAL_TREE|L)-utofu")
    ready = whole & (nbytes > _NOTICE) | has("alltoall BINE-LOG-utofu")
    # Allreduces go through their steps twice.
    swaps = rounds * (halving * (1 + (ports > table["ndim"])) / 2 + has("CONT_SEND-utofu"))
    looks = (rounds + 1) * has("alltoall .*(LOG-|bruck)")
    evicts = _evicts(ports, n * _BLOCK)
    permutes = _permutes(has) | has("alltoall BINE-LOG")
    places = n * np.minimum(1.0, nbytes / n / ports / _LINE) * permutes
    # From where the blocks are to where they go.
    far = 2 * nbytes > _LEVEL_2
    return {
        "notices": rounds * (ready | buckets),
        "addresses": 16.0 * n * ports * direct,
        "swaps": swaps,
        "timers": rounds * ports * halving,
        "entries": n * ports * (vector | (blocks & ~evicts)),
        "evictions": n
        * ports
        * ((blocks & evicts) + 2 * (direct & _evicts(2 * ports, n * _ADDRESS))),
        "divisions": n * (blocks & has("allgather|reduce_scatter")),
        "blocks": n * (looks + (blocks & permutes)),
        "ranks": n * rounds * has("alltoall BINE-LOG-mpi"),
        "near": places * ~far,
        "far": places * far,
        "surplus": n / 2 * (nbytes % (ports * n * _NUMBER)) * has("SCATTER_ALLGATHER-utofu"),
    }


def waits_and_posts(table: pd.DataFrame) -> dict[str, Floats]:
    """Return by how many segments, blocks and messages the rounds are lengthened.

    Parameters
    ----------
    table : DataFrame
        As in `of_library`, with ``messages``.

    Returns
    -------
    dict of str to ndarray, shape (n_rows,)
        ``waits`` for a segment or block; ``posts`` of blocks without a wait; ``further`` messages
        of MPI.

    Notes
    -----
    A broadcast waits once a segment, for its messages to all children; a reduction for each segment
    of each child; an allreduce by halving for each segment of its first half; an allgather by
    blocks for each block. Each wait names a timer, for which it takes memory, so that the threads
    of the ports do it one at a time.
    """
    has = _Codes(table)
    segment, ports = table["segment"].to_numpy(float), table["ports"].to_numpy(float)
    rounds, n = table["rounds"].to_numpy(float), table["n_tasks"].to_numpy(float)
    segments = np.ceil(table["nbytes"].to_numpy() / np.maximum(segment, 1.0))
    times = has("(bcast|reduce) .*BINOMIAL_TREE.*-utofu|B_CONT-utofu") * (segment > 0)
    # The reduction's ports are served in turn, in all rounds of each.
    times = times * np.where(has("^reduce "), rounds / ports, 1.0)
    # Each round's overhead has its first message of every port in it.
    more = table["messages"].to_numpy() - rounds * np.where(table["in_turn"], 1.0, ports)
    blocks = has("_BLOCKS-utofu")
    # This broadcast's scatter forwards block by block.
    by_block = has("bcast .*SCATTER_ALLGATHER-utofu") * (n - 1 - rounds / 2)
    return {
        "waits": times * segments * (segments > 1) + blocks * ports * (n - 1),
        "posts": by_block,
        "further": np.maximum(more, 0.0) * (table["layer"] != "utofu").to_numpy(),
    }


def sums(table: pd.DataFrame) -> dict[str, Floats]:
    """Return how the library sums what has come in.

    Outside the threads of the ports the compiler shares a long loop out over all cores; inside, a
    thread sums alone, one at a time.

    Parameters
    ----------
    table : DataFrame
        As in `of_library`, with ``reduced``: of each round that reduces, how often it stands in a
        row and its messages' share of the buffer.

    Returns
    -------
    dict of str to ndarray, shape (n_rows,)
        ``shared``, bytes that all cores sum; ``forks``, how often they start to; ``chunks``, the
        parts in which a message is summed while the next comes in.
    """
    found = np.zeros((3, len(table)))
    found[2] = 1.0
    chunked = _Codes(table)("^reduce .*BINOMIAL_TREE|(BINE|RECDOUB)-B_CONT")
    names = ["layer", "nbytes", "segment", "ports", "in_turn", "reduced"]
    for at, row in enumerate(table[names].to_dict("records")):
        if row["layer"] == "utofu" and row["reduced"]:
            times, shares = np.array(row["reduced"]).T
            sizes = shares * row["nbytes"]
            chunk = np.minimum(sizes, row["segment"] or _PUT) if chunked[at] else sizes
            parts = np.ceil(sizes / chunk) * times
            shared = (chunk > _NARROW) & (row["in_turn"] or row["ports"] == 1)
            found[:, at] = (sizes * times)[shared].sum(), parts[shared].sum(), parts.sum()
            found[2, at] /= times.sum()
    return {"shared": found[0], "forks": found[1], "chunks": found[2]}


def copied(table: pd.DataFrame) -> Floats:
    """Return the bytes that an implementation copies, shape (n_rows,).

    Blocks are permuted once where the library does so, and a temporary buffer is copied; so does
    Bruck's allgather, and an allreduce by buckets its vector. All-to-alls in log(n) steps pack what
    they send in each.
    """
    has = _Codes(table)
    once = _permutes(has) | has("TMPBUF|allgather default-bruck| RING-(B_CONT|VEC_HALVING)")
    packs = has("alltoall .*(LOG-|bruck)")
    times = once + packs * (table["rounds"].to_numpy(float) + 1)
    return np.asarray(table["nbytes"].to_numpy(float) * times)


class _Codes:
    """Which rows' codes match a pattern."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._names, self._of = np.unique(table["code"].to_numpy(str), return_inverse=True)

    def __call__(self, pattern: str) -> Flags:
        return np.array([bool(re.search(pattern, name)) for name in self._names], bool)[self._of]


def _permutes(has: _Codes) -> Flags:
    """Over MPI gathers and scatters keep the blocks in order, and buckets always."""
    return has("CONT_PERMUTE") & ~has("^(gather|scatter) .*-mpi| RING-")


def _evicts(arrays: Floats, nbytes: Floats) -> Flags:
    """Whether arrays written side by side compete for the same lines of the cache."""
    return np.asarray((arrays > _WAYS) & (nbytes % _WAY == 0))
