"""The simulated samples of the experiments: which workloads, hosts and mappings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Literal

import pandas as pd

from toruscast.features import feature_names
from toruscast.mapping import CommGraph, Torus, Workload, machines, patterns, strategies
from toruscast.training.sample_store import locked, read_samples, write_samples
from toruscast.training.samples import build_samples

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
# Packets that carry a message, so many at most: all of those in dimension order while that is
# affordable; fewer of those above the limit of adaptive routing, whose simulation takes three times
# as long. Of every pattern some fifty or more go through each FIFO of a node.
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
    def torus(self) -> Torus:
        """The host, with the firmware's order of dimensions and its zones."""
        return machines.bluegene_q(self.shape)

    @property
    def workload(self) -> Workload:
        """What is sent: every pattern is periodic but those of pF3D."""
        grid = _GRIDS.get((self.benchmark, self.n_tasks), ())
        nbytes = SIZES.get(self.size, 0)
        if self.benchmark == "pF3D":
            return Workload(list(patterns.pf3d(grid)), name=self.name)
        comm: CommGraph
        if self.benchmark == "2D Halo":
            comm = patterns.halo_2d(grid, nbytes, periodic=True)
        elif self.benchmark == "3D Halo":
            comm = patterns.halo_3d(grid, nbytes, periodic=True)
        else:
            comm = patterns.sub_all_to_all(self.n_tasks, nbytes)
        return Workload([comm], name=self.name)

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


def build(
    store_path: str | os.PathLike[str],
    wanted: Sequence[Block] | None = None,
    *,
    n_jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[tuple[Block, pd.DataFrame]]:
    """Simulate the samples, block by block, into one table; a run that was killed goes on.

    What the table holds of a block under other keys, such as with longer packets, is dropped.

    Parameters
    ----------
    store_path : path-like
        The table (Parquet), as of `build_samples`.
    wanted : sequence of Block, optional
        All if not given.
    n_jobs : int
        Threads.
    progress : callable, optional
        Called with the name of the block, its samples done and all its samples.

    Yields
    ------
    Block, DataFrame
        As soon as its samples are in the table. Messages above 64 KiB are routed adaptively.
    """
    for block in blocks() if wanted is None else wanted:
        workload, torus = block.workload, block.torus
        mappings = strategies.sample(
            workload, torus, n=block.n_mappings, seed=SEED, tasks_per_node=TASKS_PER_NODE
        )
        name = f"{block.name} on {torus}"

        def report(done: int, total: int, name: str = name) -> None:
            if progress is not None:
                progress(name, done, total)

        start = process_time()
        table = build_samples(
            [(workload, torus, mappings)],
            store_path,
            n_jobs=n_jobs,
            level=2,
            routing="by_size",
            features=features(),
            coarsening=block.coarsening,
            progress=report,
            provenance={"seed": SEED},
        )
        _settle(Path(store_path), name, table, process_time() - start)
        yield block, table


def _settle(store: Path, name: str, block: pd.DataFrame, seconds: float) -> None:
    """Drop what a block's samples replace, and note what it cost.

    That is besides what a run that was killed, or one with fewer features, had spent on it, unless
    its simulations were others.
    """
    with locked(store):
        table = read_samples(store)
        own = table[["workload", "torus"]].eq(block[["workload", "torus"]].iloc[0]).all(axis=1)
        stale = own & ~table["key"].isin(block["key"])
        origin = table.attrs["provenance"]
        before = origin.get("processor_seconds", {})
        spent = seconds + (0.0 if stale.any() else before.get(name, 0.0))
        origin["processor_seconds"] = before | {name: spent}
        origin["coarsening_of"] = {f"{b.name} on {b.torus}": b.coarsening for b in blocks()}
        write_samples(table[~stale].reset_index(drop=True), store, origin)
