"""Repeat predictions, simulations and file access, and check that the memory does not grow.

    python tools/soak.py --minutes 120

The first rounds fill caches, so the memory after a tenth of the time is the reference. Exits with 1
if the process exceeds it by more than 50 MB.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import toruscast as tc

MOST_GROWTH = 50e6
_PAGE = 4096
# Number of rounds that fill caches.
_WARM = 10


def held():
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def one_round(seed, folder):
    comm, torus = tc.patterns.random_pairs(32, 4, 4096, seed=seed), tc.Torus((4, 4, 2))
    mappings = tc.strategies.sample(comm, torus, n=8, seed=seed)
    tc.write_comm(comm, folder / "a.csv")
    comm = tc.read_comm(folder / "a.csv")
    tc.simulate(comm, torus, mappings[seed % 8])
    tc.rank(comm, torus, mappings)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120)
    seconds = 60 * parser.parse_args().minutes
    start, rounds, before = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while (spent := time.monotonic() - start) < seconds:
            one_round(rounds, Path(folder))
            rounds += 1
            if not before and rounds > _WARM and spent > seconds / 10:
                before = held()
    if not before:
        print(f"only {rounds} rounds in {seconds:.0f} s, which tell nothing: give more minutes")
        return 1
    grown = held() - before
    print(f"{rounds} rounds in {spent:.0f} s: {before / 1e6:.0f} MB, {grown / 1e6:+.1f} MB since")
    return int(grown > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
