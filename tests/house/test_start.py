"""A command loads what it needs; libraries that take long to start come only where used."""

import subprocess
import sys

import pytest

SLOW = ("sklearn", "scipy.stats", "scipy.optimize", "networkx", "plotly", "matplotlib", "skops")
TRAFFIC = "--comm ring.csv --torus 2x2x2"
COMMANDS = [
    f"rank {TRAFFIC} --candidates 4",
    f"plan {TRAFFIC} --candidates 4 --out next",
    f"features {TRAFFIC} --candidates 2",
    f"simulate {TRAFFIC} --candidates 2",
    f"search {TRAFFIC} --seconds 0.1 --objective max_bytes",
    "machines",
    "formats",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda line: line.split()[0])
def test_a_command_does_not_load_slow_libraries_in_vain(command, tmp_path):
    rows = "".join(f"{i},{(i + 1) % 8},4096,1\n" for i in range(8))
    (tmp_path / "ring.csv").write_text("src,dst,nbytes,n_messages\n" + rows)
    code = (
        "import sys\n"
        "from toruscast.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print('LOADED', sorted(set({SLOW}) & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.stdout.endswith("LOADED []\n"), ended.stdout + ended.stderr
