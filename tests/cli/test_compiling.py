"""The simulator is compiled in a process of its own, once, and only where it can be kept."""

from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.cli import workers as compiling
from toruscast.mapping import CommGraph, MappingProblem
from toruscast.simulation import loop_kernels

PROBLEM = MappingProblem(CommGraph(2, [0], [1], [512.0]), "4")


@pytest.fixture
def started(monkeypatch):
    """Commands that would have been started."""
    commands = []

    def start(command, **_):
        commands.append(command)
        return SimpleNamespace(wait=lambda _=None: 0, poll=lambda: 0, kill=lambda: None)

    monkeypatch.setattr(compiling.subprocess, "Popen", start)
    with click.Context(click.Command("rank")):
        yield commands


def kept_in(monkeypatch, folder):
    """Let compiled kernels be kept in a folder, or nowhere."""
    path = None if folder is None else str(folder)
    run = SimpleNamespace(
        stats=SimpleNamespace(cache_path=path),
        __code__=loop_kernels.run.py_func.__code__,
        __name__="run",
    )
    monkeypatch.setattr(loop_kernels, "run", run)


def test_an_empty_folder_starts_it_and_says_so(monkeypatch, tmp_path, started):
    kept_in(monkeypatch, tmp_path)
    said = []
    process = compiling.Compiling(PROBLEM, said.append)
    assert len(started) == len(said) == 1
    assert "once on this machine" in said[0]
    process.wait()
    assert process.process is None


@pytest.mark.parametrize("folder", ["kept", None])
def test_kept_or_not_to_be_kept_starts_nothing(monkeypatch, tmp_path, started, folder):
    (tmp_path / "loop_kernels.run-32.py311.nbi").write_bytes(b"")
    kept_in(monkeypatch, None if folder is None else tmp_path)
    said = []
    compiling.Compiling(PROBLEM, said.append).wait()
    assert started == said == []


def test_an_index_older_than_the_source_counts_for_nothing(monkeypatch, tmp_path, started):
    import os

    index = tmp_path / "loop_kernels.run-32.py311.nbi"
    index.write_bytes(b"")
    source = Path(loop_kernels.run.py_func.__code__.co_filename)
    os.utime(index, (0, source.stat().st_mtime - 1))
    kept_in(monkeypatch, tmp_path)
    compiling.Compiling(PROBLEM, [].append)
    assert len(started) == 1


def test_another_kernel_is_compiled_where_it_is_needed(monkeypatch, tmp_path, started):
    kept_in(monkeypatch, tmp_path)
    problem = MappingProblem(PROBLEM.workload, PROBLEM.torus, "adaptive")
    compiling.Compiling(problem, [].append)
    assert started == []


@pytest.mark.parametrize(("more", "starts"), [("--no-simulation", 0), ("--simulations 1", 1)])
def test_what_is_not_simulated_needs_no_simulator(monkeypatch, tmp_path, started, more, starts):
    kept_in(monkeypatch, tmp_path)
    traffic = f"rank --comm lammps-lj-64 --torus 4x4x4 --candidates 4 {more}"
    assert CliRunner().invoke(main, traffic.split()).exit_code == 0
    assert len(started) == starts


def test_what_it_runs_compiles_the_simulator():
    compiling.compile_simulator()
    assert loop_kernels.run.signatures
