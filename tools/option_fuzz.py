"""Run commands with random options; each must answer, or print one line and an exit code.

    python tools/option_fuzz.py --runs 100 --seed 3
    python tools/option_fuzz.py rank "pmnf fit"

Values are valid, at a limit or malformed, and inputs have eight tasks. Each kind of fault is
printed once, with a command that causes it. Exits with 1 if there is a fault.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from option_cases import LINES, cases, fault_of, kind_of, write_files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help="all if none is named")
    parser.add_argument("--runs", type=int, default=100, help="runs a command")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kinds = set()
    for path in options.commands or LINES:
        codes = Counter()
        for words in cases(path, options.seed, options.runs):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                write_files(folder)
                fault, code = fault_of(words, seconds=300)
                os.chdir("/")
            codes[code] += 1
            if fault and (path, kind_of(fault)) not in kinds:
                kinds.add((path, kind_of(fault)))
                print(f"  {words}: {fault}", flush=True)
        print(f"{path}: exit codes {dict(codes)}", flush=True)
    print(f"{len(kinds)} kinds of faults")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
