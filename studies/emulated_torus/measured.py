"""The measurements: patterns, mappings, runs, and the torus that they ran on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast.mapping import as_workload

from ..study import Inputs

TIMES = "emulated-torus/times.csv"
MAPPINGS = "emulated-torus/mappings.csv"
GROUP = 8
# Frames of 3,000 bytes; addresses, TCP with time stamps and the frame itself take 66 of them. The
# latencies are guesses, far below the 4.8 ms that a frame takes on a link.
TORUS = tc.Torus(
    (4, 4, 4),
    bandwidth=(625e3,) * 3,
    tie_break="sum_parity",
    network=tc.Network(
        payload=2948, header=66, hop_latency=2e-5, overhead=5e-5, memory_bandwidth=1e9
    ),
)


@dataclass(frozen=True)
class Case:
    """A pattern of one size, its mappings and their runs."""

    name: str
    workload: tc.Workload
    mappings: list[tc.TaskMapping]
    runs: tc.Runs


def read(inputs: Inputs) -> list[Case]:
    """Return the cases in the order of the file.

    Raises
    ------
    InputError
        If the measurements are not found.
    """
    times = pd.read_csv(inputs.files(TIMES)[0])
    placed = pd.read_csv(inputs.files(MAPPINGS)[0]).set_index("mapping_id")
    nodes = placed[[name for name in placed if name.startswith("t")]].to_numpy()
    mappings = {
        str(number): tc.TaskMapping(row, TORUS.n_nodes, name=str(number))
        for number, row in zip(placed.index, nodes, strict=True)
    }
    cases = []
    for (pattern, nbytes), rows in times.groupby(["pattern", "msg_bytes"], sort=False):
        table = pd.DataFrame({"mapping": rows["mapping_id"].astype(str), "time": rows["time_s"]})
        runs = tc.Runs.from_times(table)
        known = [mappings[name] for name in runs.names]
        workload = _workload(str(pattern), int(nbytes))
        cases.append(Case(f"{pattern} {nbytes:,} B", workload, known, runs))
    return cases


def _workload(pattern: str, nbytes: int) -> tc.Workload:
    """All messages of a halo at once, or the rounds of exchanges within groups of eight."""
    if pattern == "halo2d":
        return as_workload(tc.patterns.halo_2d((8, 8), nbytes, periodic=True))
    tasks = np.arange(TORUS.n_nodes)
    rounds = [
        tc.CommGraph(tasks.size, tasks, tasks ^ step, np.full(tasks.size, nbytes))
        for step in range(1, GROUP)
    ]
    return tc.Workload(rounds, pattern, dependent=True)
