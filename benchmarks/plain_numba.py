"""Measure what each part of `toruscast._llvm` saves compared with plain numba kernels.

    python benchmarks/plain_numba.py --out FOLDER

Writes plain_numba.csv. For every part it has the processor seconds of the same work with this part
and with `numba.njit` alone, the bytes of machine code, and the seconds of compiling both. Each
variant runs in its own process with its own kernels. The variants take turns, and the best time of
a variant counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd

import toruscast as tc
import toruscast._jit as jit
import toruscast._llvm as llvm
from toruscast.answers.html import describe_machine

ROUNDS, REPEATS = 2, 3


@numba.njit(inline="always")
def no_prefetch(array: Any, index: int) -> None:
    """Do nothing instead of prefetching an element."""


def _which(compare: Callable[[Any, Any], Any], lanes: int) -> Any:
    @numba.njit(error_model="numpy")
    def which(array: Any, index: int, number: Any) -> Any:
        found = np.uint64(0)
        for k in range(lanes):
            found |= np.uint64(compare(array[index + k], number)) << np.uint64(k)
        return found

    return which


@numba.njit(inline="always")
def share(one: Any, other: Any) -> bool:
    """Return whether two numbers have a bit in common."""
    return (np.int64(one) & np.int64(other)) != 0


@numba.njit(inline="always")
def equal(one: Any, other: Any) -> bool:
    """Return whether two numbers are equal."""
    return np.int64(one) == np.int64(other)


def _plain_options(function: Any) -> Any:
    return numba.njit(nogil=True, error_model="numpy")(function)


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "as it is": (llvm, {}),
    "prefetch": (llvm, {"prefetch": no_prefetch}),
    "rows of numbers": (
        llvm,
        {
            "sharing_of_16": _which(share, 16),
            "sharing_of_64": _which(share, 64),
            "equal_of_64": _which(equal, 64),
        },
    ),
    "pointer": (llvm, {"point_to": numba.njit(inline="always")(lambda arrays: arrays)}),
    "bare kernels": (jit, {"bare_kernel": _plain_options}),
}


def works() -> dict[str, Callable[[], object]]:
    """Return the work of each case; its random pairs make most memory accesses miss the caches."""
    from toruscast.simulation import simulate

    draw = np.random.default_rng(0)
    torus = tc.Torus((16, 16, 8))
    pairs = tc.patterns.random_pairs(2048, 6, 16384, seed=1)
    mapping = tc.TaskMapping(draw.permutation(2048), torus)
    large = tc.Torus((8, 8, 8, 8, 2))
    many = tc.patterns.random_pairs(131_072, 8, 65536, seed=1)
    onto = [tc.TaskMapping(draw.permutation(131_072) // 16, large)]
    names = ["max_bytes", "release_bound"]
    return {
        "packets": lambda: simulate(pairs, torus, mapping, coarsening=1),
        "adaptive packets": lambda: simulate(
            pairs, torus, mapping, routing="adaptive", coarsening=1
        ),
        "level 1": lambda: tc.features(many, large, onto, features=names, n_jobs=1),
    }


def measure(variant: str) -> dict[str, tuple[float, float]]:
    """Return the seconds of compiling and of running each case in this process."""
    module, plain = VARIANTS[variant]
    vars(module).update(plain)
    found = {}
    for case, work in works().items():
        seconds = []
        for _ in range(REPEATS + 1):
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
        found[case] = (seconds[0] - min(seconds[1:]), min(seconds[1:]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kernels", type=Path, help="folder that keeps what is compiled")
    parser.add_argument("--variant", choices=VARIANTS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options.variant)))
        return
    rows: list[tuple[str, str, int, float, float]] = []
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for turn in range(ROUNDS):
            for variant in VARIANTS:
                folder = options.kernels or Path(temporary)
                kept = {**os.environ, "NUMBA_CACHE_DIR": str(folder / variant)}
                command = [sys.executable, __file__, "--out", ".", "--variant", variant]
                ended = subprocess.run(
                    command, env=kept, check=True, stdout=subprocess.PIPE, text=True
                )
                for case, (compiling, running) in json.loads(ended.stdout).items():
                    rows.append((variant, case, turn, compiling, running))
                print(variant, ended.stdout, end="", flush=True)
                kernels = (folder / variant).rglob("*.nb[ic]")
                sizes[variant] = sum(file.stat().st_size for file in kernels)
    table = pd.DataFrame(rows, columns=["part", "case", "turn", "compiling", "running"])
    running = table.groupby(["part", "case"], sort=False)["running"]
    wide = running.min().rename("seconds").reset_index()
    own = wide[wide["part"] == "as it is"].set_index("case")["seconds"]
    wide["seconds_over_ours"] = wide["seconds"] / wide["case"].map(own)
    wide["kept_bytes"] = wide["part"].map(sizes)
    # If an earlier call has cached the kernels, the first turn does not compile them.
    if options.kernels is None:
        wide["compile_seconds"] = table[table["turn"] == 0]["compiling"].to_numpy()
    wide = wide.assign(**describe_machine())
    options.out.mkdir(parents=True, exist_ok=True)
    wide.to_csv(options.out / "plain_numba.csv", index=False, float_format="%.4g")
    print(wide.iloc[:, :6].to_string(index=False))


if __name__ == "__main__":
    main()
