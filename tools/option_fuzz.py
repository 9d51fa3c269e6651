"""Random combinations of options for every command: one line and an exit code, or an answer.

    python tools/option_fuzz.py --runs 100
    python tools/option_fuzz.py --runs 1000 --seed 3 rank "pmnf fit"

Values are valid, at a limit or hostile. The commands run in this process on inputs of eight tasks.
Each kind of fault is printed once, with the line that showed it; exits 1 if there is one.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from option_cases import LINES, cases, fault_of, kind_of, write_files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help="all if none is named")
    parser.add_argument("--runs", type=int, default=100, help="runs a command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60, help="most seconds a run")
    options = parser.parse_args()
    kinds = {}
    for path in options.commands or LINES:
        codes, start, slowest = Counter(), time.monotonic(), (0.0, [])
        for words in cases(path, options.seed, options.runs):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                write_files(folder)
                fault, code = fault_of(words, options.seconds)
                os.chdir("/")
            codes[code] += 1
            slowest = max(slowest, (time.monotonic() - began, words))
            if fault and (path, kind_of(fault)) not in kinds:
                kinds[path, kind_of(fault)] = words
                print(f"  {words}: {fault}", flush=True)
        took = time.monotonic() - start
        print(f"{path}: {dict(codes)}, {took:.0f} s; {slowest[0]:.1f} s {slowest[1]}", flush=True)
    print(f"{len(kinds)} kinds of faults")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
