"""Which algorithm an MPI library takes for a collective, by its own rules for ranks and bytes."""

from __future__ import annotations

from functools import lru_cache

# Lines are "ranks below: bytes below algorithm, ..."; the last entry of both has no bound. A
# message of Open MPI's knomial tree and its segments of no size are as in the algorithm named.
# Source: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c of v4.1.4, commutative operations, and the
# algorithms that coll/base takes instead where there are too few ranks or elements.
_OPEN_MPI = """
allreduce of all
4: 8 ring, 4096 recursive_doubling, 8192 ring, 16384 recursive_doubling, 262144 ring, rabenseifner
8: 16 ring, 8192 recursive_doubling, rabenseifner
16: 8192 recursive_doubling, rabenseifner
32: 64 ring, 4096 recursive_doubling, rabenseifner
64: 128 ring, rabenseifner
128: 262144 recursive_doubling, rabenseifner
256: 131072 nonoverlapping, 262144 recursive_doubling, rabenseifner
512: 4096 nonoverlapping, rabenseifner
2048: 2048 nonoverlapping, 16384 recursive_doubling, rabenseifner
4096: 2048 nonoverlapping, 4096 ring, 16384 recursive_doubling, rabenseifner
2048 nonoverlapping, 16384 ring, 32768 recursive_doubling, rabenseifner
alltoall of a block
3: pairwise
8: 524288 linear, 1048576 pairwise, linear
16: linear
32: 4 linear, 512 bruck, linear
64: 512 bruck, linear
128: 1024 bruck, 262144 linear, pairwise
256: 1024 bruck, 262144 linear, pairwise
512: 1024 bruck, 32768 linear, pairwise
1024: 512 bruck, 262144 linear, pairwise
2048: 512 bruck, linear
4096: 1024 bruck, linear
2048 bruck, linear
allgather of a block
3: ring
32: recursive_doubling
64: 1024 recursive_doubling, 65536 neighbor_exchange, ring
128: 512 recursive_doubling, 65536 neighbor_exchange, ring
256: 512 recursive_doubling, 131072 neighbor_exchange, 524288 ring, 1048576 neighbor_exchange, ring
512: 32 recursive_doubling, 128 bruck, 1024 recursive_doubling, 131072 neighbor_exchange, ring
1024: 64 recursive_doubling, 256 bruck, 2048 recursive_doubling, neighbor_exchange
2048: 256 recursive_doubling, 512 bruck, 4096 recursive_doubling, neighbor_exchange
512 bruck, 4096 recursive_doubling, neighbor_exchange
bcast of all
4: 32 pipeline, 256 binary, 512 pipeline, 1024 binomial, 32768 linear, 131072 binary, \
262144 chain, 524288 linear, 1048576 binomial, binary
8: 64 binary, 128 binomial, 2048 binary, 8192 binomial, 1048576 linear, chain
16: 8 binomial, 64 binary, 4096 binomial, 16384 binary, 32768 binomial, linear
32: 1048576 binomial, scatter_doubling
128: binomial
256: 2 binomial, 16384 binary, 32768 linear, 65536 binary, binomial
1024: 16384 binomial, 32768 split_binary, binomial
2048: 524288 binomial, scatter_doubling
4096: 262144 binomial, scatter_doubling
8192 binomial, 16384 binary, 262144 binomial, scatter_doubling
reduce of all
4: 8 halving, 16 binary, 32 pipeline, 262144 linear, 524288 pipeline, 1048576 chain, pipeline
8: 4096 binary, 65536 chain, 262144 binomial, 524288 linear, 1048576 binomial, linear
16: 8192 binary, binomial
32: 4096 binary, binomial
256: binomial
512: 8192 binomial, 16384 in_order_binary, binomial
binomial
reduce_scatter of all
4: ring
8: 8 nonoverlapping, 262144 recursive_halving, ring
32: 262144 recursive_halving, ring
64: 64 nonoverlapping, 524288 recursive_halving, ring
512: 256 nonoverlapping, recursive_halving
512 nonoverlapping, recursive_halving
gather of a block
4: 4 linear, 32768 binomial, 65536 linear, 131072 binomial, linear
8: 1024 binomial, 8192 linear, 32768 binomial, linear
binomial
scatter of a block
4: linear
8: 2048 binomial, 4096 linear, 8192 binomial, linear
32: 16384 binomial, linear
64: 512 binomial, 8192 linear, 16384 binomial, linear
512 binomial, linear
"""
# Source: the defaults of MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE and its like in src/mpi/coll of MPICH
# 4.0, from which those of Cray, Intel and Ohio State descend.
_MPICH = """
allreduce of all
2049 recursive_doubling, rabenseifner
alltoall of a block
8: 32769 linear, pairwise
257 bruck, 32769 linear, pairwise
allgather of all
524288 recursive_doubling, ring
bcast of all
8: binomial
12288 binomial, 524288 scatter_doubling, scatter_ring
reduce of all
2049 binomial, halving
reduce_scatter of all
524288 recursive_halving, pairwise
gather of all
binomial
scatter of all
binomial
"""
# Where the library is not known: what most take for large messages.
_OTHERS = """
allreduce of all
ring
alltoall of all
pairwise
allgather of all
ring
bcast of all
binomial
reduce of all
binomial
reduce_scatter of all
ring
gather of all
linear
scatter of all
linear
"""
# Algorithms made of two of ours, or of one of another collective.
_MADE_OF = {
    "allreduce/nonoverlapping": "reduce/binomial+bcast/binomial",
    "bcast/scatter_doubling": "scatter/binomial+allgather/recursive_doubling",
    "bcast/scatter_ring": "scatter/binomial+allgather/ring",
    "reduce/halving": "reduce_scatter/recursive_halving+gather/binomial",
    "reduce_scatter/nonoverlapping": "reduce/binomial+scatter/linear",
    "reduce_scatter/pairwise": "alltoall/pairwise",
}
_ELEMENT = 8
Rules = list[tuple[float, list[tuple[float, str]]]]


@lru_cache
def _rules(library: str) -> dict[str, tuple[bool, Rules]]:
    """By collective: whether bytes are those of a block; rows of ranks, of bytes and algorithm."""
    text = {"Open MPI": _OPEN_MPI, "MPICH": _MPICH}.get(library, _OTHERS)
    found: dict[str, tuple[bool, Rules]] = {}
    for line in text.strip().splitlines():
        collective, of, unit = line.partition(" of ")
        if of:
            rows: Rules = []
            found[collective] = (unit == "a block", rows)
            continue
        ranks, colon, entries = line.rpartition(":")
        each = []
        for entry in entries.split(","):
            *below, name = entry.split()
            each.append((float(below[0]) if below else float("inf"), name))
        rows.append((float(ranks) if colon else float("inf"), each))
    return found


COLLECTIVES = tuple(_rules(""))
"""Collectives that become the messages of an algorithm."""


def family_of(library: str) -> str:
    """Return whose rules a library follows, by the name that it gives itself; "" if not known.

    Examples
    --------
    >>> family_of("Open MPI v4.1.4"), family_of("MPICH Version: 4.0.2"), family_of("")
    ('Open MPI', 'MPICH', '')
    """
    if "open mpi" in library.lower():
        return "Open MPI"
    heirs = ("mpich", "intel", "mvapich")
    return "MPICH" if any(name in library.lower() for name in heirs) else ""


def algorithm_of(family: str, collective: str, n: int, nbytes: float) -> str:
    """Return the algorithm of a collective; of two that follow each other, with + between.

    Parameters
    ----------
    family : str
        As of `family_of`.
    collective : str
    n : int
        Ranks that take part.
    nbytes : float
        Size of the whole buffer, as of `schedule`.

    Examples
    --------
    >>> algorithm_of("Open MPI", "alltoall", 4, 160_000), algorithm_of("", "alltoall", 4, 160_000)
    ('alltoall/linear', 'alltoall/pairwise')
    >>> algorithm_of("MPICH", "bcast", 16, 2**20)
    'scatter/binomial+allgather/ring'
    """
    of_block, rows = _rules(family)[collective]
    size = nbytes / n if of_block else nbytes
    entries = next(each for below, each in rows if n < below)
    name = next(name for below, name in entries if size < below)
    is_power = n & (n - 1) == 0
    if name == "recursive_doubling" and collective == "allgather" and not is_power:
        name = "bruck" if family == "Open MPI" or nbytes < 81920 else "ring"
    if name == "scatter_doubling" and not is_power:
        name = "scatter_ring"
    if name == "neighbor_exchange" and n % 2:
        name = "ring"
    # Fewer elements than ranks; an element is taken for 8 bytes.
    if family == "Open MPI" and collective == "allreduce" and nbytes < _ELEMENT * n:
        name = {"ring": "recursive_doubling", "rabenseifner": "linear"}.get(name, name)
    whole = f"{collective}/{name}"
    return _MADE_OF.get(whole, whole)
