"""The measured tasks do what they say, and runs count items and rounds correctly."""

import threading
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from studies import patterns
from studies.patterns import compare, measure
from studies.patterns import tasks as measured_tasks
from studies.patterns.__main__ import command
from studies.patterns.tasks import TASKS, Stream, Timing, run_alone, run_pipeline
from toruscast.errors import InputError


def test_tasks():
    block = np.array([[3, 1, 2], [9, 7, 8]], dtype=np.int32)
    TASKS["nop"](block)
    assert block.tolist() == [[3, 1, 2], [9, 7, 8]]
    TASKS["inc"](block)
    assert block.tolist() == [[4, 2, 3], [10, 8, 9]]
    TASKS["qsort"](block)
    assert block.tolist() == [[2, 3, 4], [8, 9, 10]]


def test_a_stream_is_the_same_each_time():
    stream = Stream(100, 3)
    first = [block.copy() for block in stream.items(30)]
    assert [block.shape for block in first] == [(3, 30)] * 3
    assert len(np.unique(np.concatenate(first))) > 250
    for block in stream.items(30):
        block[:] = 0
    assert np.array_equal(first, stream.items(30))
    with pytest.raises(InputError, match="found 101, expected at most 100"):
        stream.items(101)


@pytest.fixture
def seen(monkeypatch):
    """Tasks that note each block they get, with the thread that ran them."""
    notes = {"nop": [], "inc": [], "qsort": []}

    def noting(name):
        def task(block):
            notes[name].append((threading.get_ident(), block[0, 0]))
            time.sleep(0.002)

        return task

    for name in notes:
        monkeypatch.setitem(measured_tasks.TASKS, name, noting(name))
    return notes


def test_each_stage_sees_each_block_once(seen):
    stages = [("qsort", 2), ("inc", 3), ("nop", 1)]
    timing = run_pipeline(stages, Stream(8, 14), 4)
    firsts = sorted(block[0, 0] for block in Stream(8, 14).items(4))
    assert timing.seconds > 0
    for name, workers in stages:
        assert sorted(first for _, first in seen[name]) == firsts
        assert len({thread for thread, _ in seen[name]}) <= workers


def test_workers_of_a_pool_run_at_the_same_time(monkeypatch):
    """Each block waits for another one to be worked on."""
    meeting = threading.Barrier(2)
    monkeypatch.setitem(measured_tasks.TASKS, "inc", lambda block: meeting.wait(timeout=300))
    assert run_pipeline([("inc", 2)], Stream(8, 6), 4).seconds > 0


def test_stages_run_at_the_same_time(monkeypatch):
    """Each stage works on a block only while the other one does too, but for the first and last."""
    meeting = threading.Barrier(2)
    left = {"inc": [0] + [1] * 5, "nop": [1] * 5 + [0]}

    def noting(name):
        return lambda block: left[name].pop(0) and meeting.wait(timeout=300)

    for name in left:
        monkeypatch.setitem(measured_tasks.TASKS, name, noting(name))
    assert run_pipeline([("inc", 1), ("nop", 1)], Stream(8, 6), 4).seconds > 0


def test_a_loop_runs_each_block(seen):
    timing = run_alone("inc", Stream(8, 5), 4)
    assert len(seen["inc"]) == 5
    # Sleeping takes at least as long as asked for.
    assert timing.seconds >= 0.002 / 2


def test_pools_hand_out_whole_rounds(seen):
    """One worker of 2 ms a block of two items gives an item a millisecond at best."""
    assert run_pipeline([("inc", 1)], Stream(8, 5), 4).seconds >= 0.002 / 2 * 0.99


def test_too_many_workers_for_the_blocks():
    with pytest.raises(InputError, match="found 5, expected 6"):
        run_pipeline([("inc", 3)], Stream(8, 5), 4)


def test_measure_runs_all_and_keeps_the_undisturbed(monkeypatch):
    """The second run of three waits least; its time does not matter."""
    calls = {}

    def alone(task, stream, n):
        calls[task, n] = number = calls.get((task, n), 0) + 1
        return Timing(1e-6 * number, {1: 0.5, 2: 0.03, 3: 0.4}[number])

    monkeypatch.setattr(patterns, "run_alone", alone)
    done = []
    rows = measure(
        ["tpool_2(inc)"], [4, 8], 1, integers=64, blocks=4, progress=lambda *x: done.append(x)
    )
    assert done[-1] == ("runs", 12, 12)
    assert rows[rows.pattern == "inc"].microseconds.tolist() == [2, 2]
    assert rows[rows.pattern == "inc"].waited.tolist() == [0.03, 0.03]
    assert (rows[rows.pattern == "tpool_2(inc)"].microseconds > 0).all()


def test_measure_and_compare_for_real():
    rows = measure(["pipe(inc, nop)", "tpool_1(inc)"], [2, 4, 8, 16, 32], 2, 256, 6)
    assert set(rows.pattern) == {"inc", "nop", "pipe(inc, nop)", "tpool_1(inc)"}
    assert rows.groupby(["pattern", "n"]).size().tolist() == [2] * 20
    assert (rows.microseconds > 0).all()
    tasks, table = compare(rows)
    assert set(tasks) == {"inc", "nop"}
    assert table.pattern.tolist() == ["pipe(inc, nop)", "tpool_1(inc)"]


def test_compare_on_known_times():
    """Errors by hand: composed n against 1.25 n fitted; medians 1.25 n but 2 at n = 1."""
    n = np.array([1.0, 2, 4, 8, 16])
    alone = pd.DataFrame({"pattern": "inc", "n": n, "microseconds": 2 * n, "waited": 0.0})
    pool = alone.assign(pattern="tpool_2(inc)", microseconds=1.25 * n)
    tasks, table = compare(pd.concat([alone, pool]))
    assert tasks["inc"].formula() == "2 n"
    assert table.composed[0] == "n"
    assert table.error[0] == pytest.approx(20)
    pool.loc[0, "microseconds"] = 2.0
    _, table = compare(pd.concat([alone, pool]))
    assert table.median_error[0] == pytest.approx(20)
    assert table.largest_error[0] == pytest.approx(50)


def test_bad_measurements():
    with pytest.raises(InputError, match="unknown task"):
        measure(["sort"])
    for sizes in ([], [0], [2.5], [2**30]):
        with pytest.raises(InputError, match="bad sizes"):
            measure(sizes=sizes)


def test_the_command_writes_the_comparison(tmp_path):
    arguments = ["pipe(inc, nop)", "--sizes", "64,128,256,512,1024", "--repetitions", "1"]
    result = CliRunner().invoke(command, [*arguments, "--csv", str(tmp_path / "out.csv")])
    assert result.exit_code == 0, result.output
    assert pd.read_csv(tmp_path / "out.csv").pattern.tolist() == ["pipe(inc, nop)"]
    for sizes, message in (("a,b", "expected whole numbers"), ("5", "at least 3 different")):
        refused = CliRunner().invoke(command, ["--sizes", sizes])
        assert refused.exit_code == 2
        assert message in refused.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo("], "bad expression 'foo('"),
        (["sort"], "unknown task"),
        (["--sizes", "1024,2048,1048576"], "expected whole numbers from 1 to 524288"),
    ],
)
def test_the_command_refuses_wrong_input_in_words(arguments, message):
    refused = CliRunner().invoke(command, arguments)
    assert refused.exit_code == 2
    assert message in refused.output
