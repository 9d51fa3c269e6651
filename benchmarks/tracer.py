"""Measure the cost of recording for the loops of real programs; writes tracer.csv.

    python benchmarks/tracer.py --out FOLDER [--pairs 7] [--only NAME ...]

The programs run on the emulated 4x4 torus of the study of real programs, in the default order. A
pair is a run with the tracer and a run without it, in random order. The share is the median over
the pairs of the ratio of the two times, and its quartiles are given too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import toruscast as tc
from studies.real_mpi import live
from studies.real_mpi.network import MPICC, EmulatedTorus, compile_c, in_order
from toruscast.answers.html import describe_machine

PROGRAMS = ("lj", "lu", "halo", "transpose", "wavefront", "graph", "allreduce")


def loop_seconds(network: EmulatedTorus, words: list[str], folder: Path, *, traced: bool) -> float:
    """Run a program once; return the seconds of its loop that it prints."""
    placing = in_order(folder / "hosts", network.torus.n_nodes)
    command = network.words(words, placing, live.LONGEST, folder)
    environment = network.environment([] if traced else [network.sleeper])
    if traced:
        shutil.rmtree(folder / "trace", ignore_errors=True)
        ours = [sys.executable, "-c", live.COMMAND, "trace", "--mpicc", MPICC, "--out", "trace"]
        command = [*ours, "--", *command]
        environment["LD_PRELOAD"] = str(network.sleeper)
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    found = live.SECONDS.search(done.stdout)
    if done.returncode or found is None:
        sys.exit(f"{words[0]} printed no time: {(done.stderr or done.stdout)[-400:]}")
    return float(found[1])


def rows_of(network: EmulatedTorus, names: list[str], pairs: int) -> list[dict[str, Any]]:
    """Measure each program."""
    rng = np.random.default_rng(1)
    compile_c(live.HERE / "kinds.c", network.folder / "kinds")
    rows = []
    for name in names:
        words = live.command_of(name, network.folder / "kinds")
        if words is None:
            print(f"{name} is not installed here")
            continue
        folder = network.folder / name
        live.prepare(folder, live.SETUPS["4x4"])
        order = tc.TaskMapping(np.arange(network.torus.n_nodes), network.torus)
        tc.write_mapping(order, folder / "hosts", "hostfile", hosts=network.hosts)
        times = np.empty((pairs, 2))
        for pair in times:
            for traced in rng.permutation(2):
                pair[traced] = loop_seconds(network, words, folder, traced=bool(traced))
        low, share, high = np.quantile(times[:, 1] / times[:, 0] - 1, (0.25, 0.5, 0.75))
        plain = float(np.median(times[:, 0]))
        rows.append({"program": name, "seconds": plain, "more": share, "low": low, "high": high})
        rows[-1] |= {"pairs": pairs, "load": os.getloadavg()[0]}
        print(f"{name}: {plain:.2f} s, {share:+.1%} ({low:+.1%} to {high:+.1%})", flush=True)
    return rows


def main() -> None:
    """Measure all programs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=PROGRAMS)
    asked = parser.parse_args()
    torus = live.SETUPS["4x4"].torus
    with (
        tempfile.TemporaryDirectory() as scratch,
        EmulatedTorus(torus, Path(scratch) / "network") as network,
    ):
        rows = rows_of(network, asked.only, asked.pairs)
    machine = describe_machine()
    asked.out.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame([{**row, **machine} for row in rows])
    table.to_csv(asked.out / "tracer.csv", index=False)


if __name__ == "__main__":
    main()
