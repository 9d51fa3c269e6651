"""The schedules behind the algorithm names of the Fugaku measurements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from toruscast.mapping.collectives import names

from .footprint import N_PORTS

# Algorithms of Fujitsu MPI with published schedules; it is based on Open MPI. The broadcast
# "basic-linear" is omitted, because its times show that another algorithm runs under this name.
_MPI = {
    "allgather": {
        "bruck": "bruck",
        "neighbor": "neighbor_exchange",
        "ring": "ring",
        "recursive-doubling": "recursive_doubling",
        "3dtorus": "bucket",
    },
    "allreduce": {
        "basic_linear": "linear",
        "recursive_doubling": "recursive_doubling",
        "ring": "ring",
        "segmented_ring": "ring",
        "trix3": "pipelined_trees",
        "trix6": "pipelined_trees",
    },
    "alltoall": {
        "linear": "linear",
        "linear-sync": "linear",
        "pairwise": "pairwise",
        "modified-bruck": "bruck",
    },
    "bcast": {
        "binary-tree": "binary",
        "binomial": "binomial",
        "chain": "chain",
        "pipeline": "pipeline",
        "split-binary-tree": "split_binary",
        "trinaryx3": "pipelined_trees",
        "trinaryx6": "pipelined_trees",
    },
    "gather": {
        "basic-linear": "linear",
        "binomial": "binomial",
        "linear-sync": "linear",
    },
    "reduce": {
        "binary": "binary",
        "binomial": "binomial",
        "chain": "chain",
        "in-order-binary": "in_order_binary",
        "linear": "linear",
        "pipeline": "pipeline",
        "trinaryx3": "pipelined_trees",
        "trinaryx6": "pipelined_trees",
    },
    "reduce_scatter": {"recursive-halving": "recursive_halving", "ring": "ring"},
    "scatter": {"basic-linear": "linear", "binomial": "binomial"},
}

# Bytes of a number in the benchmark's buffers.
_NUMBER = 4

# Suffixes in the bine library's names: bine, or binary on the torus for RECDOUB.
_BINE = {
    "allgather": {
        "VEC_DOUBLING_BLOCKS": "_blocks",
        "VEC_DOUBLING_CONT_PERMUTE": "",
        "VEC_DOUBLING_CONT_SEND": "_sorted",
    },
    "allreduce": {"L": "", "B_CONT": "_rabenseifner"},
    "alltoall": {"LOG": ""},
    "bcast": {
        "BINOMIAL_TREE": "",
        "BINOMIAL_TREE_TMPBUF": "",
        "SCATTER_ALLGATHER": "_scatter_allgather",
    },
    "gather": {
        "BINOMIAL_TREE_CONT_PERMUTE-DEC": "",
        "BINOMIAL_TREE_CONT_PERMUTE-INC": "_near",
        "BINOMIAL_TREE_CONT_PERMUTE": "",
    },
    "reduce": {"BINOMIAL_TREE": "", "REDUCE_SCATTER_GATHER": "_reduce_scatter_gather"},
    "reduce_scatter": {"VEC_HALVING_CONT_PERMUTE": ""},
    "scatter": {
        "BINOMIAL_TREE_CONT_PERMUTE-DEC": "",
        "BINOMIAL_TREE_CONT_PERMUTE-INC": "_near",
        "BINOMIAL_TREE_CONT_PERMUTE": "_near",
    },
}
# Over MPI, where no distances can be chosen: gathers start with the near ones, scatters end so.
_OVER_MPI = {"gather": "_near", "scatter": ""}
# Names of bucket algorithms, and of Bruck's all-to-all.
_RING = {
    "allgather": "VEC_DOUBLING_CONT_PERMUTE",
    "allreduce": "B_CONT",
    "reduce_scatter": "VEC_HALVING_CONT_PERMUTE",
}
_BRUCK = {"alltoall": "LOG"}


@dataclass(frozen=True)
class Variant:
    """An implementation of a collective.

    Attributes
    ----------
    schedule : str
        Name in `toruscast.mapping.collectives`.
    code : str
        Implementation: the name without segment size and ports.
    layer : {"utofu", "mpi", "fjmpi", "trees"}
        Bine library over uTofu or over MPI, or Fujitsu MPI itself. Its pipelined trees are a
        separate layer, because they use the network without MPI messages.
    ports : int
        Ports that the implementation drives itself; for Fujitsu MPI, the number of pipelined trees
        or of bucket directions.
    segment : int
        Bytes; 0: none.
    on_torus : bool
        Whether the algorithm uses the dimensions of the torus, or only ranks.
    all_ports : bool
        Whether what a task sends in a round leaves through any of the node's ports, as in
        pipelined trees and where Open MPI's broadcasts start the messages to all children at once;
        else through one a lane.
    in_turn : bool
        Whether the ports are served one after the other, each from the first round to the last.
    """

    schedule: str
    code: str
    layer: str
    ports: int
    segment: int
    on_torus: bool = True
    all_ports: bool = False
    in_turn: bool = False

    @property
    def pipelined(self) -> bool:
        """Whether segments are under way in all levels of a tree at once."""
        return self.segment > 0 and self.layer in ("fjmpi", "trees")


def parse(
    collective: str, algorithm: str, nbytes: float, ndim: int, n_tasks: int
) -> Variant | None:
    """Return the variant of a name in the measurements; None if its schedule is unknown.

    Names with more ports than the machine has, or with several ports over MPI, are unknown too.

    Parameters
    ----------
    collective, algorithm : str
        As in the measurements, the collective in lower case.
    nbytes : float
        Size of the whole buffer, on which the segments of pipelined trees depend.
    ndim : int
        Dimensions of the torus.
    n_tasks : int

    Examples
    --------
    >>> parse("allreduce", "BINE-B_CONT-UTOFU-65536-6", 2**20, 3, 64).schedule
    'allreduce/bine_rabenseifner'
    >>> parse("alltoall", "default-crp", 2**20, 3, 64) is None
    True
    >>> parse("allreduce", "default-ring", 128, 3, 64).schedule
    'allreduce/recursive_doubling'
    """
    library, _, rest = algorithm.partition("-")
    if library == "default":
        return _mpi(collective, rest, nbytes, ndim, n_tasks)
    name, *numbers = rest.rsplit("-", 2)
    if len(numbers) != 2 or not all(text.isascii() and text.isdigit() for text in numbers):
        return None
    piece, drives = map(int, numbers)
    layer = next((part for part in ("UTOFU", "MPI") if part in name.split("-")), "")
    method = "-".join(part for part in name.split("-") if part != layer)
    if not layer or not 1 <= drives <= N_PORTS or (layer == "MPI" and drives > 1):
        return None
    return _bine(collective, library, method, layer.lower(), piece, drives, ndim)


def _bine(
    collective: str, library: str, method: str, layer: str, segment: int, ports: int, ndim: int
) -> Variant | None:
    code = f"{collective} {library}-{method}-{layer}"
    # Over MPI these work on ranks, without the torus, and have no distances or families to choose
    # from.
    flat = layer == "mpi" and collective in ("bcast", "reduce", "scatter", "gather", "alltoall")
    if library == "BRUCK" and method == _BRUCK.get(collective):
        # The same on every layer.
        return Variant(f"{collective}/bruck", code, "mpi", 1, 0, on_torus=False)
    if library == "RING" and method == _RING.get(collective):
        # A port for each direction of each dimension, without segments.
        there = layer == "utofu" and ports == 2 * ndim
        return Variant(f"{collective}/bucket", code, layer, ports, 0) if there else None
    suffix = _BINE.get(collective, {}).get(method)
    if flat and suffix is not None:
        suffix = _OVER_MPI.get(collective, suffix)
    family = {"BINE": "bine", "RECDOUB": "" if flat else "torus_binary"}.get(library)
    schedule = f"{collective}/{family}{suffix}"
    if suffix is None or schedule not in names():
        return None
    # Its reduction loops over the ports in a single thread.
    in_turn = collective == "reduce" and method == "BINOMIAL_TREE"
    # Over MPI no algorithm uses the size of segments.
    segment = segment if layer == "utofu" else 0
    return Variant(schedule, code, layer, ports, segment, not flat, in_turn=in_turn)


def _mpi(collective: str, key: str, nbytes: float, ndim: int, n_tasks: int) -> Variant | None:
    known = _MPI.get(collective, {}).get(key)
    if known is None:
        return None
    if collective == "allreduce" and known == "ring" and nbytes < n_tasks * _NUMBER:
        # A ring gives each rank a part. With fewer numbers than ranks, Open MPI uses doubling.
        known = "recursive_doubling"
    name, code = f"{collective}/{known}", f"{collective} default-{key}"
    if known == "pipelined_trees":
        trees = ndim if key.endswith("3") else 2 * ndim
        return Variant(name, code, "trees", trees, _segment(collective, nbytes), all_ports=True)
    if known == "bucket":
        return Variant(name, code, "fjmpi", 2 * ndim, 0)
    at_once = collective == "bcast" and key != "pipeline"
    asked = _SEGMENTED.get(f"{collective}/{key}")
    segment = asked(nbytes) if asked else 0
    return Variant(name, code, "fjmpi", 1, segment, on_torus=False, all_ports=at_once)


def _segment(collective: str, nbytes: float) -> int:
    """Segment sizes that the benchmark's scripts ask of a collective's trees."""
    limits = {
        "allreduce": [(393216, 4096), (6291456, 16384)],
        "bcast": [(768, 0), (24576, 1024), (49152, 8192), (393216, 4096), (50331648, 16384)],
        "reduce": [(24577, 0), (49152, 1024), (393216, 4096), (6291456, 16384)],
    }[collective]
    return next((segment for limit, segment in limits if nbytes <= limit), 65536)


# Trees of Open MPI of which the benchmark's scripts ask for segments too.
_SEGMENTED: dict[str, Callable[[float], int]] = {
    "reduce/binary": functools.partial(_segment, "reduce"),
    "reduce/binomial": functools.partial(_segment, "reduce"),
    "reduce/in-order-binary": lambda nbytes: 65536,
}
