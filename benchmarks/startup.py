"""Measure the first and the second call of every common command.

    python benchmarks/startup.py --out FOLDER

Writes startup.csv, with a row for each command and call: exit code, processor seconds (user and
system), modules imported, the slow packages among them, and kernels compiled. Before the first
call, there are no compiled kernels except those of an installed wheel (see `kernels`). Rows of
another source of kernels stay in the file.
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

from toruscast import _jit

TRAFFIC = "--comm lammps-lj-512 --torus 8x8x8"
SMALL = "--comm lammps-lj-64 --torus 4x4x4"
COMMANDS = {
    "help": "--help",
    "rank": f"rank {TRAFFIC}",
    "search": f"search {TRAFFIC} --seconds 2",
    "plan": f"plan {TRAFFIC}",
    "mesh": "mesh --torus tpu_v6e:16x16 --axes data=64,tensor=4 "
    "--traffic tensor:exchange:4MB,data:exchange:4MB",
    "explain": f"explain {TRAFFIC} --mapping identity",
    "simulate": f"simulate {TRAFFIC} --mapping identity",
    "features": f"features {TRAFFIC}",
    "train": f"train {SMALL} -n 20 --splits 2 --out FOLDER/model.npz",
    "evaluate": f"evaluate {SMALL} -n 20 --splits 2",
    "calibrate": "calibrate FOLDER/osu.csv --torus 2x4",
    "pmnf fit": "pmnf fit FOLDER/values.csv",
    "convert": "convert FOLDER/ring.csv FOLDER/ring.edges",
    "doctor": "doctor FOLDER/ring.csv",
    "machines": "machines",
}
FILES = {
    "ring.csv": ["src,dst,nbytes,n_messages", *(f"{i},{(i + 1) % 8},4096,1" for i in range(8))],
    "values.csv": ["p,value", *(f"{n},{3 + n / 2}" for n in (2, 4, 8, 16, 32))],
    "osu.csv": [
        "source,destination,bytes,time",
        *(f"0,1,{8**k},{1e-6 + 8**k * 1e-9}" for k in range(1, 8)),
    ],
}
SLOW = (
    "asyncio",
    "joblib",
    "numba",
    "pandas",
    "pyarrow",
    "scipy.linalg",
    "scipy.special",
    "sklearn",
)
# Runs a command in this process, then appends its cost to a file.
MEASURED = """
import json, logging, resource, sys
from toruscast.cli import main
out, slow, *words = sys.argv[1:]
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
    main(words)
except SystemExit as end:
    code = end.code or 0
used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
row = {
    "seconds": sum(each.ru_utime + each.ru_stime for each in used),
    "modules": len(sys.modules),
    "slow": " ".join(name for name in slow.split() if name in sys.modules),
    "compiled": count.n,
    "code": code,
}
open(out, "w").write(json.dumps(row))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help="names of commands; all if none is given")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kernels = "wheel" if _jit._SHIPPED.is_dir() else "compiled"
    rows: list[dict[str, object]] = []
    for name in options.commands or COMMANDS:
        with TemporaryDirectory() as folder:
            for file, lines in FILES.items():
                (Path(folder) / file).write_text("\n".join([*lines, ""]))
            words = shlex.split(COMMANDS[name].replace("FOLDER", folder))
            for call in ("first", "second"):
                row = {"command": name, "call": call, "kernels": kernels}
                rows.append(row | measure(words, folder) | machine())
                print(rows[-1])
    options.out.mkdir(parents=True, exist_ok=True)
    file, table = options.out / "startup.csv", pd.DataFrame(rows)
    if file.exists():
        old = pd.read_csv(file)
        table = pd.concat([old[old["kernels"] != kernels], table])
    table.to_csv(file, index=False)


def measure(words: list[str], folder: str) -> dict[str, float]:
    """Return the cost of a call, with the kernels in a folder."""
    row = Path(folder) / "row.json"
    # A second call finds compiled modules, as in an installed package.
    settings = {"NUMBA_CACHE_DIR": str(Path(folder) / "kernels"), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(
        [sys.executable, "-c", MEASURED, row, " ".join(SLOW), *words],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    found: dict[str, float] = json.loads(row.read_text())
    return found


if __name__ == "__main__":
    main()
