"""Long commands that are killed go on to the same end; `make kills` kills them more often."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "kills.py"


# Each kill costs a run of the command.
CASES = [pytest.param(name, 1, marks=pytest.mark.slow) for name in ("train", "plan-run")]
CASES += [
    pytest.param(name, 3, marks=pytest.mark.slow)
    for name in ("train", "train-workers", "plan-run", "search", "studies-build")
]


@pytest.mark.parametrize(("name", "kills"), CASES)
def test_a_command_that_is_killed_ends_as_one_that_is_not(name, kills, tmp_path):
    words = [sys.executable, str(TOOL), "--kills", str(kills), name]
    # A file: who reads a pipe waits for all who hold it, those that were killed may have left too.
    with (tmp_path / "said").open("w+") as said:
        ended = subprocess.run(words, stdout=said, stderr=said, check=False, timeout=1500)
        said.seek(0)
        text = said.read()
    assert ended.returncode == 0, text
    assert f"{name}: {kills} kill" in text
