"""Commands only import what they need, because some packages are slow to import."""

import json
import os
import subprocess
import sys

import pytest

SLOW = {
    *("asyncio", "joblib", "networkx", "numba", "pandas", "pyarrow", "sklearn"),
    *("matplotlib", "plotly", "skops"),
    *("scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats"),
}
# pandas imports pyarrow where that is installed.
TABLES = {"pandas", "pyarrow"}
WORK = TABLES | {"numba"}
GRAPHS = {"scipy.linalg", "scipy.sparse"}
TRAFFIC = "--comm ring.csv --torus 2x2x2"
MAY_IMPORT = {
    "--help": set(),
    f"rank {TRAFFIC} --candidates 4": WORK | GRAPHS,
    f"plan {TRAFFIC} --candidates 4 --out next": WORK | GRAPHS,
    f"features {TRAFFIC} --candidates 2": WORK,
    f"simulate {TRAFFIC} --candidates 2": WORK,
    f"explain {TRAFFIC} --mapping identity": WORK | GRAPHS,
    f"search {TRAFFIC} --seconds 0.1 --objective max_bytes": WORK | GRAPHS,
    "mesh --torus tpu_v5e:2x2 --axes x=4 --traffic x:allreduce:4MB": {"numba"},
    "pmnf fit times.csv": set(),
    "machines": TABLES,
    "formats": WORK,
}
PROGRAM = """
import json, sys
from toruscast.cli import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    assert not end.code, end.code
open(sys.argv[1], "w").write(json.dumps(list(sys.modules)))
"""


# The commands of the front page; the others are slow to start one after the other.
FIRST = ("rank", "mesh", "pmnf", "--help")
COMMANDS = [
    pytest.param(line, marks=() if line.startswith(FIRST) else pytest.mark.slow)
    for line in MAY_IMPORT
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda line: line.split()[0].strip("-"))
def test_a_command_imports_no_slow_package_in_vain(command, tmp_path):
    ring = [f"{i},{(i + 1) % 8},4096,1" for i in range(8)]
    (tmp_path / "ring.csv").write_text("\n".join(["src,dst,nbytes,n_messages", *ring]))
    points = [f"{n},{3 + n / 2}" for n in (2, 4, 8, 16, 32)]
    (tmp_path / "times.csv").write_text("\n".join(["p,value", *points]))
    run = [sys.executable, "-c", PROGRAM, "modules.json", *command.split()]
    # The first call may compile kernels, for which numba imports SciPy.
    for _ in range(2):
        ended = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert ended.returncode == 0, ended.stderr
    imported = SLOW & {*json.loads((tmp_path / "modules.json").read_text())}
    assert imported <= MAY_IMPORT[command]


def test_a_kept_kernel_is_loaded_without_the_compiler(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from toruscast.decision.posterior import normal_cdf\n"
        "print(normal_cdf(np.zeros(1))[0], 'numba.np.arraymath' in sys.modules)"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert found == ["0.5 True\n", "0.5 False\n"]
