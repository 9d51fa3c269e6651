"""Long commands that are killed go on to the same end; `make kills` kills them more often."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "kills.py"


@pytest.mark.parametrize("name", ["train", "train-workers", "plan-run", "search", "studies-build"])
def test_a_command_that_is_killed_ends_as_one_that_is_not(name):
    words = [sys.executable, str(TOOL), "--kills", "3", name]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{name}: 3 kills" in ended.stdout
