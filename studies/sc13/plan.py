"""The simulated samples of the experiments: which workloads, hosts and mappings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Literal

import pandas as pd

import toruscast as tc
from toruscast.features import feature_names
from toruscast.training import build_samples, read_samples, write_samples

Benchmark = Literal["2D Halo", "3D Halo", "Sub A2A", "pF3D"]

BENCHMARKS: tuple[Benchmark, ...] = ("2D Halo", "3D Halo", "Sub A2A")
SEED = 1
N_MAPPINGS = 84
TASKS_PER_NODE = 16
SIZES = {"8 B": 8, "512 B": 512, "16 KB": 16 * 2**10, "4 MB": 4 * 2**20}
SMALL_HOST = (4, 4, 4, 8, 2)
LARGE_HOSTS = ((4, 4, 8, 16, 2), (4, 8, 4, 16, 2))
SMALL, LARGE = 16_384, 65_536

_PAYLOAD = 512
# The most packets that carry a message. Messages in dimension order have all their packets while
# that is affordable. Adaptive routing takes three times as long to simulate, so that its messages
# have fewer; fifty or more packets still go through each FIFO of a node.
_MOST_PACKETS = {("Sub A2A", LARGE): 8}
_MOST_ADAPTIVE = {
    ("2D Halo", SMALL): 64,
    ("3D Halo", SMALL): 16,
    ("Sub A2A", SMALL): 2,
    ("2D Halo", LARGE): 8,
    ("3D Halo", LARGE): 4,
    ("Sub A2A", LARGE): 2,
}
_PF3D_COARSENING = {SMALL: 1, LARGE: 4}
_GRIDS = {
    ("2D Halo", SMALL): (128, 128),
    ("2D Halo", LARGE): (256, 256),
    ("3D Halo", SMALL): (16, 32, 32),
    ("3D Halo", LARGE): (32, 32, 64),
    ("pF3D", SMALL): (16, 8, 128),
    ("pF3D", LARGE): (32, 16, 128),
}


@dataclass(frozen=True)
class Block:
    """One workload on one host under some mappings.

    Attributes
    ----------
    benchmark : {"2D Halo", "3D Halo", "Sub A2A", "pF3D"}
    size : str
        One of `SIZES`; empty for pF3D, whose phases have sizes of their own.
    shape : tuple of int
        The Blue Gene/Q host.
    n_mappings : int
    """

    benchmark: Benchmark
    size: str
    shape: tuple[int, ...]
    n_mappings: int = N_MAPPINGS

    @property
    def n_tasks(self) -> int:
        """Tasks, 16 a node."""
        return SMALL if self.shape == SMALL_HOST else LARGE

    @property
    def name(self) -> str:
        """Name of the workload, such as "2D Halo 16 KB, 16384 tasks"."""
        return f"{self.benchmark} {self.size}".strip() + f", {self.n_tasks} tasks"

    @property
    def label(self) -> str:
        """Name of the workload and host."""
        return f"{self.name} on {self.torus}"

    @property
    def torus(self) -> tc.Torus:
        """The host, with the firmware's order of dimensions and its zones."""
        return tc.machines.bluegene_q(self.shape)

    @property
    def workload(self) -> tc.Workload:
        """What is sent: every pattern is periodic but those of pF3D."""
        grid = _GRIDS.get((self.benchmark, self.n_tasks), ())
        nbytes = SIZES.get(self.size, 0)
        if self.benchmark == "pF3D":
            return tc.Workload(list(tc.patterns.pf3d(grid)), name=self.name)
        comm: tc.CommGraph
        if self.benchmark == "2D Halo":
            comm = tc.patterns.halo_2d(grid, nbytes, periodic=True)
        elif self.benchmark == "3D Halo":
            comm = tc.patterns.halo_3d(grid, nbytes, periodic=True)
        else:
            comm = tc.patterns.sub_all_to_all(self.n_tasks, nbytes)
        return tc.Workload([comm], name=self.name)

    @property
    def coarsening(self) -> int:
        """Real packets in one simulated packet."""
        if self.benchmark == "pF3D":
            return _PF3D_COARSENING[self.n_tasks]
        packets = max(1, -(-SIZES[self.size] // _PAYLOAD))
        adaptive = SIZES[self.size] > self.torus.network.deterministic_limit
        most = _MOST_ADAPTIVE if adaptive else _MOST_PACKETS
        return max(1, packets // most.get((self.benchmark, self.n_tasks), packets))


def blocks() -> tuple[Block, ...]:
    """Return all blocks: 1,008 samples of 16,384 tasks, 1,008 of 65,536, and 168 of pF3D.

    Examples
    --------
    >>> sum(block.n_mappings for block in blocks())
    2184
    """
    small = [Block(b, size, SMALL_HOST) for size in SIZES for b in BENCHMARKS]
    half = N_MAPPINGS // len(LARGE_HOSTS)
    pf3d = [Block("pF3D", "", SMALL_HOST)]
    pf3d += [Block("pF3D", "", shape, half) for shape in LARGE_HOSTS]
    large = [
        Block(b, size, shape, half) for size in SIZES for b in BENCHMARKS for shape in LARGE_HOSTS
    ]
    return (*small, *pf3d, *large)


def features() -> tuple[str, ...]:
    """Return the features stored: all but those that are themselves a simulated time."""
    return tuple(name for name in feature_names(2) if not name.startswith("sketch"))


def build(store_path: str | os.PathLike[str], block: Block, *, n_jobs: int = 1) -> pd.DataFrame:
    """Simulate the samples of a block into a table; a run that was killed goes on.

    What the table holds of the block under other keys, such as with longer packets, is dropped.
    Messages above 64 KiB are routed adaptively.

    Parameters
    ----------
    store_path : path-like
        The table (Parquet), as of `build_samples`.
    block : Block
    n_jobs : int
        Threads.

    Returns
    -------
    DataFrame
        The samples of the block.
    """
    workload, torus = block.workload, block.torus
    mappings = tc.strategies.sample(
        workload, torus, n=block.n_mappings, seed=SEED, tasks_per_node=TASKS_PER_NODE
    )
    start = process_time()
    table = build_samples(
        [(workload, torus, mappings)],
        store_path,
        n_jobs=n_jobs,
        level=2,
        routing="by_size",
        features=features(),
        coarsening=block.coarsening,
        provenance={"seed": SEED},
    )
    _settle(Path(store_path), block.label, table, process_time() - start)
    return table


def _settle(store: Path, name: str, block: pd.DataFrame, seconds: float) -> None:
    """Drop what a block's samples replace, and note what it cost.

    That is besides what a run that was killed, or one with fewer features, had spent on it, unless
    its simulations were others.
    """
    table = read_samples(store)
    own = table[["workload", "torus"]].eq(block[["workload", "torus"]].iloc[0]).all(axis=1)
    stale = own & ~table["key"].isin(block["key"])
    origin = table.attrs["provenance"]
    before = origin.get("processor_seconds", {})
    spent = seconds + (0.0 if stale.any() else before.get(name, 0.0))
    origin["processor_seconds"] = before | {name: spent}
    origin["coarsening_of"] = {b.label: b.coarsening for b in blocks()}
    write_samples(table[~stale].reset_index(drop=True), store, origin)
