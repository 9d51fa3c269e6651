"""Measure the cost of `toruscast rank`: `make rank`, 10,000 candidates, and the former method.

    python benchmarks/rank.py --out FOLDER

Writes rank.csv, with a row for each method: processor and wall seconds, peak memory, and the
simulated time of its best mapping. The former method simulated 168 other mappings as a training
set, and all candidates with longer packets. The model trained on them, and tested on 20 splits,
predicted the candidates, and `--check` simulated the candidates too. Each method runs once before
it is measured, so that the kernels are compiled.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from run import machine

import toruscast as tc
from toruscast import datasets
from toruscast.mapping import strategies
from toruscast.simulation import simulate

APPLICATION, TORUS, N, MANY = "lammps-lj-512", "8x8x8", 84, 10_000
RANK = [str(Path(sys.executable).with_name("toruscast")), "rank", "--comm", APPLICATION]
RANK += ["--torus", TORUS, "--quiet"]
FORMER = [sys.executable, __file__, "--former"]


def former(csv: str) -> None:
    """Rank with the former method."""
    comm = datasets.load(APPLICATION).scaled(1 / datasets.provenance(APPLICATION)["iterations"])
    torus = tc.torus(TORUS)
    candidates = strategies.sample(comm, torus, n=N, seed=1)
    trained = tc.train(comm, torus, 168, seed=2, exclude=candidates, n_jobs=2)
    features = trained.model.required_columns
    table = tc.features(comm, torus, candidates, features=features, n_jobs=2)
    best = candidates[int(trained.model.predict(table).argmin())]
    times = {mapping.name: simulate(comm, torus, mapping).time for mapping in candidates}
    pd.DataFrame({"time": [times[best.name]]}).to_csv(csv, index=False)


def measure(way: str, command: list[str]) -> dict[str, Any]:
    """Run a command twice; return the cost of the second run and the time of its best mapping."""
    with TemporaryDirectory() as folder:
        csv = str(Path(folder) / "table.csv")
        for _ in range(2):
            begun = time.monotonic()
            process = subprocess.Popen(
                [*command, "--csv", csv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise RuntimeError(f"{' '.join(command)} failed")
        return {
            "way": way,
            "processor_seconds": used.ru_utime + used.ru_stime,
            "seconds": time.monotonic() - begun,
            "peak_gb": used.ru_maxrss * 1024 / 1e9,
            "best_us": 1e6 * pd.read_csv(csv)["time"].iloc[0],
        }


def main() -> None:
    """Measure all methods, or run the former one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for rank.csv")
    parser.add_argument("--former", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--csv", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.former:
        former(arguments.csv)
        return
    rows = [
        measure("84 candidates as before, --check", FORMER),
        measure("84 candidates, --check (make rank)", [*RANK, "--check"]),
        measure("84 candidates", RANK),
        measure("10,000 candidates", [*RANK, "--candidates", str(MANY)]),
    ]
    table = pd.DataFrame(rows)
    table["times_less"] = table["processor_seconds"].iloc[0] / table["processor_seconds"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.assign(**machine()).to_csv(arguments.out / "rank.csv", index=False)
    print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
