"""What a sum hides: times of programs with their rounds, over those of all messages at once."""

from __future__ import annotations

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast.mapping import collectives
from toruscast.training import rcc_told_apart

from ..study import Findings, Inputs
from .recorded import APART, ROUNDS, TORUS, read

MAPPINGS = 16
SEED = 49
# Bytes of a message, or of what a collective reduces.
SIZES = (2_000, 16_000, 128_000)
COVERED = (0.05, 0.95)


def run(inputs: Inputs) -> Findings:
    """Simulate programs with their rounds and as sums.

    Raises
    ------
    InputError
        If the traces are not found.
    """
    rows, logs = [], []
    traced = [(each.name, each.workloads[ROUNDS]) for each in read(inputs)]
    for name, workload in [*traced, *generated()]:
        mappings = tc.strategies.sample(workload, TORUS, n=MAPPINGS, seed=SEED)
        rounds, summed = (
            np.array([tc.simulate(traffic, TORUS, each, error=0.03).time for each in mappings])
            for traffic in (workload, workload.total)
        )
        logs.append(np.log(rounds / summed))
        rows.append(
            {
                "program": name,
                "rounds": len(workload),
                "time over that of the sum, median": float(np.exp(np.median(logs[-1]))),
                "its deviation among mappings, logarithm": float(logs[-1].std()),
                "rcc_apart": rcc_told_apart(rounds, summed, APART),
            }
        )
    table = pd.DataFrame(rows)
    low, middle, high = np.exp(np.quantile(np.concatenate(logs), [COVERED[0], 0.5, COVERED[1]]))
    return Findings(
        f"A program that waits between its rounds takes {middle:.2f} times (median) as long as if "
        "all of its messages were sent at once. For 90 % of the mappings and programs, the "
        f"factor is {low:.2f} to {high:.2f}. The programs are the four traces and generated "
        "programs: collectives with several algorithms, and repeated halos and random exchanges. "
        "`rcc_apart` is the RCC of the times of the sum against those of the rounds. The "
        "intervals of predictions from profiles are as wide as this factor.",
        {"sums": table},
        {"Times with rounds over times of the sum, both simulated": table},
    )


def generated() -> list[tuple[str, tc.Workload]]:
    """Return programs with rounds, by name."""
    n = TORUS.n_nodes
    found = []
    for nbytes in SIZES:
        for name in (
            "allreduce/ring",
            "allreduce/recursive_doubling",
            "allreduce/rabenseifner",
            "alltoall/pairwise",
            "bcast/binomial",
        ):
            found.append((f"{name}, {nbytes} B", collectives.schedule(name, n, nbytes).workload()))
        halo = tc.patterns.halo_2d((4, 4), nbytes, periodic=True)
        random = tc.patterns.random_pairs(n, 4, nbytes, seed=SEED)
        for name, several in (
            ("halo, 8 times", [halo] * 8),
            ("random pairs, 8 times", [random] * 8),
            ("halo and random pairs in turn", [halo, random] * 4),
        ):
            found.append((f"{name}, {nbytes} B", tc.Workload(several, name, dependent=True)))
    return found
