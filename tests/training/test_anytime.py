"""A search that is stopped at any moment leaves the best so far, whole."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

WORDS = ["--comm", "lammps-droplet-128", "--torus", "4x4x8", "--seconds", "60", "--jobs", "1"]


def started(folder, *more):
    program = "from toruscast.cli import main; main()"
    words = [sys.executable, "-c", program, "search", *WORDS, "--out", "best.csv", *more]
    return subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def is_whole(path):
    rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1), dtype=int)
    return rows[:, 0].tolist() == list(range(128)) and np.unique(rows[:, 1]).size == 128


def test_killed_it_leaves_a_whole_file(tmp_path):
    running = started(tmp_path, "--objective", "max_bytes")
    file = tmp_path / "best.csv"
    try:
        until = time.monotonic() + 120
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.002)
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
        until = time.monotonic() + 120
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert "interrupted: this is the best so far" in out
    assert is_whole(file)
