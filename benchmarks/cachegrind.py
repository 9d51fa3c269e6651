"""Count the instructions and cache misses of a packet-hop in the simulator; writes CSV.

    python benchmarks/cachegrind.py --out FOLDER

The deterministic event loop runs under valgrind's cachegrind (which must be installed) with two
message sizes, in about ten minutes. The difference of the counts is divided by the difference of
the packet-hops, so that Python and the set-up hardly count. The kernels are compiled into their own
cache, for a processor without vector extensions, which valgrind may not support.

The table also has the nanoseconds and cycles of a packet-hop without valgrind by number of tasks,
and the time of a cycle and of a random memory access on this machine, measured in the same process.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from toruscast._jit import kernel
from toruscast.mapping import TaskMapping, Torus, patterns
from toruscast.simulation import simulate

# Task grid and node grid, with 16 tasks per node.
SIZES: dict[int, tuple[tuple[int, int, int], tuple[int, ...]]] = {
    2048: ((8, 16, 16), (4, 4, 2, 2, 2)),
    16384: ((16, 32, 32), (4, 4, 4, 8, 2)),
}
# Few and many packets per message. The instructions of Python vary from run to run, so the
# difference must be much larger: with 2 and 8 packets of 2,048 tasks, it varied by a third.
PACKETS = {2048: (8, 64), 16384: (2, 8)}
EVENTS = ("Ir", "D1mr", "D1mw", "DLmr", "DLmw", "Bcm", "Bim")
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}


def run_case(tasks: int, packets: int) -> tuple[int, float]:
    """Simulate a periodic 15-point halo under a random mapping; packet-hops and seconds."""
    grid, shape = SIZES[tasks]
    torus = Torus(shape)
    comm = patterns.halo_3d(grid, 512 * packets, periodic=True)
    seats = np.random.default_rng(1).permutation(np.repeat(np.arange(torus.n_nodes), 16))
    mapping = TaskMapping(seats, torus)
    start = time.process_time()
    hops = simulate(comm, torus, mapping).packet_hops
    return hops, time.process_time() - start


@kernel
def multiply(steps: int) -> int:
    """Square and add in a chain of dependent steps of four cycles each.

    The compiler would merge several steps of a multiplication by a constant.
    """
    x = np.int64(3)
    for _ in range(steps):
        x = x * x + 1
    return x


@kernel
def chase(following, steps: int) -> int:  # type: ignore[no-untyped-def]
    """Follow a random chain of indices through memory."""
    at = np.int64(0)
    for _ in range(steps):
        at = following[at]
    return at


def seconds_a_step(function, *arguments: object, steps: int) -> float:  # type: ignore[no-untyped-def]
    """Return the processor seconds of a step, the minimum of three runs after compilation."""
    function(*arguments, 1)
    times = []
    for _ in range(3):
        start = time.process_time()
        function(*arguments, steps)
        times.append((time.process_time() - start) / steps)
    return min(times)


def machine() -> tuple[float, float]:
    """Return the seconds of a cycle, and of a random access in 256 MiB, more than any cache."""
    cycle = seconds_a_step(multiply, steps=10**8) / 4
    order = np.random.default_rng(0).permutation(2**25)
    following = np.empty_like(order)
    following[order] = np.roll(order, -1)
    return cycle, seconds_a_step(chase, following, steps=5 * 10**6)


def counted(tasks: int, packets: int, cache: str) -> tuple[int, dict[str, int]]:
    """Return packet-hops and event counts of a run under cachegrind."""
    environment = {**os.environ, **GENERIC, "NUMBA_CACHE_DIR": cache, "PYTHONHASHSEED": "0"}
    command = [sys.executable, __file__, "--case", str(tasks), str(packets)]
    # Compile without valgrind, which makes programs fifty times slower.
    subprocess.run(command, env=environment, check=True, capture_output=True)
    with tempfile.NamedTemporaryFile() as file:
        valgrind = [
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--branch-sim=yes",
            f"--cachegrind-out-file={file.name}",
        ]
        done = subprocess.run(
            valgrind + command, env=environment, check=True, capture_output=True, text=True
        )
        text = Path(file.name).read_text()
    names = re.search(r"^events: (.*)$", text, re.M)
    totals = re.search(r"^summary: (.*)$", text, re.M)
    if names is None or totals is None:
        raise RuntimeError("cachegrind wrote no summary")
    counts = dict(zip(names[1].split(), map(int, totals[1].split()), strict=True))
    return int(done.stdout), {name: counts[name] for name in EVENTS}


def profile(tasks: int) -> dict[str, float]:
    """Return the counts per packet-hop, from the difference of two message sizes."""
    with tempfile.TemporaryDirectory() as cache:
        few, many = (counted(tasks, packets, cache) for packets in PACKETS[tasks])
    more = many[0] - few[0]
    each = {name: (many[1][name] - few[1][name]) / more for name in EVENTS}
    return {
        "instructions": each["Ir"],
        "first_level_misses": each["D1mr"] + each["D1mw"],
        "last_level_misses": each["DLmr"] + each["DLmw"],
        "mispredicted": each["Bcm"] + each["Bim"],
    }


def main() -> None:
    """Measure the counts, times and machine constants, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for cachegrind.csv")
    parser.add_argument("--case", type=int, nargs=2, help="only run this case: tasks, packets")
    arguments = parser.parse_args()
    if arguments.case:
        print(run_case(*arguments.case)[0])
        return
    rows = []
    for tasks in SIZES:
        counts = profile(tasks)
        cycle, jump = machine()
        run_case(tasks, 2)
        few, many = (run_case(tasks, packets) for packets in (8, 16))
        each = (many[1] - few[1]) / (many[0] - few[0])
        rows.append(
            {
                "tasks": tasks,
                **counts,
                "ns": 1e9 * each,
                "cycles": each / cycle,
                "instructions_a_cycle": counts["instructions"] * cycle / each,
                "cycle_ns": 1e9 * cycle,
                "memory_jump_ns": 1e9 * jump,
            }
        )
    table = pd.DataFrame(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / "cachegrind.csv", index=False)
    print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
