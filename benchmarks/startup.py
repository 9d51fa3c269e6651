"""Measure the first and the second call of every common command.

    python benchmarks/startup.py --out FOLDER

Writes startup.csv, a row for each command and call: processor seconds (user and system), modules
imported, and kernels compiled. The first call finds no kept kernels but those of a wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from run import machine

TRAFFIC = "--comm lammps-lj-512 --torus 8x8x8"
COMMANDS = {
    "help": "--help",
    "rank": f"rank {TRAFFIC}",
    "search": f"search {TRAFFIC} --seconds 2",
    "explain": f"explain {TRAFFIC} --mapping identity",
    "simulate": f"simulate {TRAFFIC} --mapping identity",
    "features": f"features {TRAFFIC}",
    "plan": f"plan {TRAFFIC}",
    "mesh": "mesh --torus tpu_v6e:16x16 --axes data=64,tensor=4 "
    "--traffic tensor:exchange:4MB,data:exchange:4MB",
    "pmnf fit": "pmnf fit FOLDER/times.csv",
    "machines": "machines",
}
# Runs a command in this process, then adds what it took to a file.
MEASURED = """
import json, logging, resource, sys
from toruscast.cli import main
class Count(logging.Handler):
    n = 0
    def emit(self, record):
        self.n += getattr(record, "event", "") == "compiled"
count = Count()
kernels = logging.getLogger("toruscast._jit")
kernels.addHandler(count)
kernels.setLevel(logging.INFO)
code = 0
try:
    main(sys.argv[2:])
except SystemExit as end:
    code = end.code or 0
used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
row = {
    "seconds": sum(each.ru_utime + each.ru_stime for each in used),
    "modules": len(sys.modules),
    "compiled": count.n,
    "code": code,
}
open(sys.argv[1], "w").write(json.dumps(row))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help="names of commands; all if none is given")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for name in options.commands or COMMANDS:
        with TemporaryDirectory() as folder:
            points = "\n".join(f"{n},{3 + 0.5 * n}" for n in (2, 4, 8, 16, 32))
            (Path(folder) / "times.csv").write_text(f"p,time\n{points}\n")
            words = shlex.split(COMMANDS[name].replace("FOLDER", folder))
            for call in ("first", "second"):
                rows.append({"command": name, "call": call, **measure(words, folder)} | machine())
                print(rows[-1])
    options.out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(options.out / "startup.csv", index=False)


def measure(words: list[str], folder: str) -> dict[str, float]:
    """Return what one call takes, with kernels kept in a folder."""
    row = Path(folder) / "row.json"
    settings = {"NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}
    subprocess.run(
        [sys.executable, "-c", MEASURED, row, *words],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    found: dict[str, float] = json.loads(row.read_text())
    return found


if __name__ == "__main__":
    main()
