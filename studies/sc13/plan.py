"""The simulated samples of the experiments: which workloads, hosts and mappings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any, Literal

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast._features import RoutedTraffic, feature_names
from toruscast.mapping import MappingProblem
from toruscast.mapping.patterns import from_recipe
from toruscast.training import build_samples
from toruscast.training.store import SampleFiles, join_tables

Benchmark = Literal["2D Halo", "3D Halo", "Sub A2A", "pF3D"]

Kind = Literal["structured", "wide"]

BENCHMARKS: tuple[Benchmark, ...] = ("2D Halo", "3D Halo", "Sub A2A")
SEED = 1
N_MAPPINGS = 84
TASKS_PER_NODE = 16
SIZES = {"8 B": 8, "512 B": 512, "16 KB": 16 * 2**10, "4 MB": 4 * 2**20}
SMALL_HOST = (4, 4, 4, 8, 2)
LARGE_HOSTS = ((4, 4, 8, 16, 2), (4, 8, 4, 16, 2))
SMALL, LARGE = 16_384, 65_536
STRUCTURED = ("identity", "permute", "zigzag", "tilt", "nested")
"""Families after Rubik, with which the published mappings were made."""

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
# With fewer packets a message, four in one are no sketch but another network.
_SKETCHED = 4
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
    kind : {"structured", "wide"}
        Mappings: nested blocks, tilts, zigzags and permutations, as published; or those of all
        strategies, with random swaps and random ones.
    """

    benchmark: Benchmark
    size: str
    shape: tuple[int, ...]
    n_mappings: int = N_MAPPINGS
    kind: Kind = "structured"

    @property
    def n_tasks(self) -> int:
        """Tasks, 16 a node."""
        return SMALL if self.shape == SMALL_HOST else LARGE

    @property
    def name(self) -> str:
        """Name of the workload, such as "2D Halo 16 KB, 16384 tasks"."""
        name = f"{self.benchmark} {self.size}".strip() + f", {self.n_tasks} tasks"
        return name if self.kind == "structured" else f"{name}, {self.kind}"

    @property
    def iterations(self) -> int:
        """How often the exchange is simulated; the first time warms up and is not measured."""
        return 4 if self.n_tasks == SMALL else 2

    @property
    def protocol(self) -> dict[str, int]:
        """What the times and counters of the block depend on besides mappings and machine."""
        return {"coarsening": self.coarsening, "iterations": self.iterations}

    @property
    def sketch(self) -> dict[str, int]:
        """Protocol of the sketch: packets four times as long, or half as many exchanges."""
        packets = self._packets // self.coarsening
        if packets < _SKETCHED:
            return self.protocol | {"iterations": self.iterations // 2}
        return self.protocol | {"coarsening": 4 * self.coarsening}

    @property
    def label(self) -> str:
        """Name of the workload and host."""
        return f"{self.name} on {self.torus}"

    @property
    def torus(self) -> tc.Torus:
        """The host, with the firmware's order of dimensions and its zones."""
        return tc.machines.bluegene_q(self.shape)

    @property
    def recipe(self) -> dict[str, Any]:
        """What is sent, as the table tells it: every pattern is periodic but those of pF3D."""
        grid = _GRIDS.get((self.benchmark, self.n_tasks), ())
        nbytes = SIZES.get(self.size, 0)
        if self.benchmark == "pF3D":
            return {"pattern": "pf3d", "grid": grid}
        if self.benchmark == "Sub A2A":
            return {"pattern": "sub_all_to_all", "n_tasks": self.n_tasks, "nbytes": nbytes}
        pattern = "halo_2d" if self.benchmark == "2D Halo" else "halo_3d"
        return {"pattern": pattern, "grid": grid, "nbytes": nbytes, "periodic": True}

    @property
    def workload(self) -> tc.Workload:
        """What is sent."""
        return from_recipe(self.recipe, self.name)

    @property
    def _packets(self) -> int:
        """Real packets of a message; of pF3D's, which differ, those of many."""
        return 64 if self.benchmark == "pF3D" else max(1, -(-SIZES[self.size] // _PAYLOAD))

    @property
    def coarsening(self) -> int:
        """Real packets in one simulated packet."""
        if self.benchmark == "pF3D":
            return _PF3D_COARSENING[self.n_tasks]
        packets = self._packets
        adaptive = SIZES[self.size] > self.torus.network.deterministic_limit
        most = _MOST_ADAPTIVE if adaptive else _MOST_PACKETS
        return max(1, packets // most.get((self.benchmark, self.n_tasks), packets))

    def mappings(self) -> list[tc.TaskMapping]:
        """Return the mappings; no two structured ones load the links alike with as many hop-bytes.

        Mappings that a symmetry of the torus turns into each other do, and take the same time.
        """
        if self.kind == "wide":
            return self._sample(self.n_mappings, None)
        for wanted in (2 * self.n_mappings, 4 * self.n_mappings):
            different: dict[bytes, tc.TaskMapping] = {}
            for mapping in self._sample(wanted, STRUCTURED):
                different.setdefault(self._loads(mapping), mapping)
            if len(different) >= self.n_mappings:
                break
        # Those first in the sample come from all kinds, and differ most.
        return list(different.values())[: self.n_mappings]

    def _sample(self, n: int, kinds: tuple[str, ...] | None) -> list[tc.TaskMapping]:
        return tc.strategies.sample(
            self.workload, self.torus, n=n, seed=SEED, tasks_per_node=TASKS_PER_NODE, kinds=kinds
        )

    def _loads(self, mapping: tc.TaskMapping) -> bytes:
        """Return the link loads in order of size; their sum is the hop-bytes."""
        load = RoutedTraffic(MappingProblem(self.workload, self.torus), mapping).link_bytes
        return np.sort(np.rint(load)).tobytes()


def blocks() -> tuple[Block, ...]:
    """Return all blocks, in the order in which they are built.

    1,008 samples of 16,384 tasks under structured mappings, 84 of pF3D, 1,008 under mappings of all
    kinds; then 84 of pF3D and 1,008 others of 65,536 tasks.

    Examples
    --------
    >>> sum(block.n_mappings for block in blocks())
    3192
    """
    half = N_MAPPINGS // len(LARGE_HOSTS)
    small = [Block(b, size, SMALL_HOST) for size in SIZES for b in BENCHMARKS]
    large = [Block("pF3D", "", shape, half) for shape in LARGE_HOSTS]
    large += [
        Block(b, size, shape, half) for size in SIZES for b in BENCHMARKS for shape in LARGE_HOSTS
    ]
    wide = [replace(block, kind="wide") for block in small]
    return (*small, Block("pF3D", "", SMALL_HOST), *wide, *large)


def features() -> tuple[str, ...]:
    """Return the features stored: all but those that are themselves a simulated time."""
    return tuple(name for name in feature_names(2) if not name.startswith("coarse"))


def sketches_of(store_path: str | os.PathLike[str]) -> Path:
    """Return the table of the sketches' times, beside that of the samples."""
    store = Path(store_path)
    return store.with_name(f"{store.stem}-sketches{store.suffix}")


def build(
    store_path: str | os.PathLike[str],
    block: Block,
    *,
    n_jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> pd.DataFrame:
    """Simulate the samples of a block into a table; a run that was killed goes on.

    What the table holds of the block under other keys, such as with longer packets, is dropped.
    Messages above 64 KiB are routed adaptively. A second table gets the times of a sketch.

    Parameters
    ----------
    store_path : path-like
        The table (Parquet), as of `build_samples`.
    block : Block
    n_jobs : int
        Threads.
    progress : callable, optional
        Called with the samples done and all of the block: those of the sketch, then, come quickly.

    Returns
    -------
    DataFrame
        The samples of the block.
    """
    mappings = block.mappings()
    store, names = Path(store_path), features()
    table = _simulate(store, block, mappings, block.protocol, names, n_jobs, progress)
    _simulate(sketches_of(store_path), block, mappings, block.sketch, ("hop_bytes",), n_jobs)
    return table


def _simulate(
    store: Path,
    block: Block,
    mappings: list[tc.TaskMapping],
    protocol: dict[str, int],
    names: tuple[str, ...],
    n_jobs: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> pd.DataFrame:
    start = process_time()
    table = build_samples(
        [(block.workload, block.torus, mappings)],
        store,
        n_jobs=n_jobs,
        level=2,
        routing="by_size",
        features=names,
        provenance={"seed": SEED},
        progress=progress,
        **protocol,
    )
    _settle(store, block, table, protocol, process_time() - start)
    return table


def _settle(
    store: Path, block: Block, samples: pd.DataFrame, protocol: dict[str, int], seconds: float
) -> None:
    """Drop what a block's samples replace, and note how they were made and what they cost.

    That is besides what a run that was killed, or one with fewer features, had spent on it, unless
    its simulations were others.
    """

    def settled(tables: list[pd.DataFrame]) -> pd.DataFrame:
        table = join_tables(tables)
        own = table[["workload", "torus"]].eq(samples[["workload", "torus"]].iloc[0]).all(axis=1)
        stale = own & ~table["key"].isin(samples["key"])
        origin = dict(table.attrs["provenance"])
        before = origin.get("processor_seconds", {})
        spent = seconds + (0.0 if stale.any() else before.get(block.label, 0.0))
        origin["processor_seconds"] = before | {block.label: spent}
        origin["protocol_of"] = origin.get("protocol_of", {}) | {block.label: protocol}
        left = table[~stale].reset_index(drop=True)
        left.attrs["provenance"] = origin | told()
        return left

    SampleFiles(store).join(settled)


def told() -> dict[str, Any]:
    """Return what the table tells of its workloads, so that their traffic can be routed again."""
    recipes = {block.name: block.recipe for block in blocks()}
    return {"workloads": recipes, "tasks_per_node": TASKS_PER_NODE}
