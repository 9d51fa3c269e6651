"""Test each law on many random tori, and count the examples that pass.

python tools/laws.py [--examples 10000] [--keep] [NAME ...]
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from kept import renew

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "data" / "laws.csv"
FILES = ("tests/simulation/test_laws.py", "tests/routing/test_symmetry.py")
_LAW = re.compile(r"^\S+::test_(\w+):$")
_COUNT = re.compile(r"(\d+) passing(?: examples)?, (\d+) failing")


def counted(report):
    """Return the passed and failed examples of each law from the statistics of Hypothesis."""
    found, law = {}, None
    for line in report.splitlines():
        if name := _LAW.match(line.strip()):
            law = name[1].replace("_", " ")
        elif law and (count := _COUNT.search(line)):
            passed, failed = found.get(law, (0, 0))
            found[law] = passed + int(count[1]), failed + int(count[2])
    return found


def run():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="words of the names of some laws; all if none")
    parser.add_argument("--examples", type=int, default=10_000, help="of each law")
    parser.add_argument("--keep", action="store_true", help=f"write counts to {KEPT.name}")
    options = parser.parse_args()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--hypothesis-show-statistics"]
    if options.names:
        command += ["-k", " or ".join(options.names)]
    ended = subprocess.run(
        [*command, *FILES],
        cwd=ROOT,
        env=os.environ | {"EXAMPLES": str(options.examples)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found = counted(ended.stdout)
    for law, (passed, failed) in found.items():
        print(f"{passed:>9,} examples, {failed} failures: {law}", flush=True)
    if options.keep:
        renew(KEPT, [{"law": law, "examples": n, "failures": f} for law, (n, f) in found.items()])
    if ended.returncode:
        print(ended.stdout)
    sys.exit(ended.returncode)


if __name__ == "__main__":
    run()
