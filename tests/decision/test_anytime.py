"""A search that is stopped at any time leaves a complete file with the best mapping so far."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from waiting import PATIENCE, until

WORDS = ["--comm", "lammps-droplet-128", "--torus", "4x4x8", "--seconds", "600", "--jobs", "1"]


def started(folder, *more):
    program = "from toruscast.cli import main; main()"
    words = [sys.executable, "-c", program, "search", *WORDS, "--out", "best.csv", *more]
    return subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def nodes_of(path):
    rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1), dtype=int)
    assert rows[:, 0].tolist() == list(range(128))
    return rows[:, 1].tolist()


def is_whole(path):
    return len(set(nodes_of(path))) == 128


def test_killed_it_leaves_a_whole_file(tmp_path):
    running = started(tmp_path, "--objective", "max_bytes")
    file = tmp_path / "best.csv"
    try:
        until(file.exists)
        time.sleep(np.random.default_rng().uniform(0, 1))
        running.send_signal(signal.SIGKILL)
    finally:
        running.kill()
        running.communicate()
    assert is_whole(file)
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".csv"] == ["best.csv"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupted_it_tells_the_best_so_far(tmp_path):
    running = started(tmp_path, "--objective", "max_bytes")
    file = tmp_path / "best.csv"
    try:
        # The file first has the tasks in order, while kernels may still be compiling.
        until(lambda: file.exists() and nodes_of(file) != list(range(128)))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert "Interrupted. This is the best mapping so far." in out
    assert is_whole(file)
