"""Log messages on stderr with -v, and as JSON lines with --log-file."""

import json
import logging
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from worker_tasks import tell

import toruscast as tc
from toruscast.cli import main
from toruscast.workers import Task

ENDS = (
    "import os\n"
    "from toruscast import register_feature\n"
    "@register_feature('ends', description='x')\n"
    "def ends(traffic):\n"
    "    os._exit(9)\n"
)


@pytest.fixture
def given(tmp_path):
    tc.write_comm(tc.patterns.halo_2d((4, 4), 4096, periodic=True), tmp_path / "halo.edges")
    return ("--comm", tmp_path / "halo.edges", "--torus", "4x4", "--candidates", "12")


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_log_holds_all_that_is_done(given, tmp_path):
    log, table = tmp_path / "log.jsonl", tmp_path / "out.csv"
    options = ("--log-file", log, "--csv", table, "--jobs", "1")
    assert call("rank", *given, *options).exit_code == 0
    lines = lines_of(log)
    for line in lines:
        assert datetime.fromisoformat(line["time"]).tzinfo is not None
        assert line["level"] == "info"
        assert line["logger"].startswith("toruscast.")
        assert line["process"] == os.getpid()
        assert line["message"]
    events = [line["event"] for line in lines]
    assert events[0] == "began"
    assert events[-1] == "ended"
    assert {"read", "features", "simulated", "observed", "decided", "wrote"} <= {*events}
    read = [line for line in lines if line["event"] == "read"]
    assert [line["what"] for line in read] == ["graph"]
    assert read[0]["file"] == str(given[1])
    assert read[0]["size"] == given[1].stat().st_size
    assert read[0]["tasks"] == 16
    assert read[0]["seconds"] > 0
    assert lines[events.index("decided")]["simulated"] >= 1
    wrote = lines[events.index("wrote")]
    assert wrote["file"] == str(table)
    assert wrote["size"] == table.stat().st_size
    assert lines[-1]["code"] == 0


def test_a_second_command_goes_on_in_the_same_log(given, tmp_path):
    log = tmp_path / "log.jsonl"
    for _ in range(2):
        call("features", *given, "--log-file", log, "--jobs", "1")
    events = [line["event"] for line in lines_of(log)]
    assert events.count("began") == events.count("ended") == 2


def test_errors_and_warnings_are_in_the_log(given, tmp_path):
    log = tmp_path / "log.jsonl"
    wrong = call("rank", *given, "--log-file", log, "--allocation", tmp_path / "none")
    assert wrong.exit_code == 2
    error, ended = lines_of(log)[-2:]
    assert error["level"] == "error"
    assert error["message"] in wrong.stderr
    assert ended["code"] == 2


def test_verbose_prints_log_messages(given):
    result = call("rank", *given, "-v", "--jobs", "1")
    assert result.exit_code == 0
    assert "toruscast: read graph" in result.stderr
    assert "toruscast: decided" in result.stderr
    assert "decided" not in result.stdout


def test_nothing_is_printed_without_request(given):
    assert call("rank", *given, "--jobs", "1").stderr == ""
    (handler,) = logging.getLogger("toruscast").handlers
    assert isinstance(handler, logging.NullHandler)
    assert not logging.getLogger("toruscast").isEnabledFor(logging.INFO)


@pytest.mark.parametrize("place", ["none/log.jsonl", "."])
def test_a_log_that_cannot_be_written_is_reported_at_once(given, tmp_path, place):
    result = call("rank", *given, "--log-file", tmp_path / place)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "cannot be written" in result.stderr


def test_a_log_replaces_nothing_that_is_read_or_written(given, tmp_path):
    before = given[1].read_bytes()
    for words in (
        ("--log-file", given[1]),
        ("--csv", tmp_path / "a", "--log-file", tmp_path / "a"),
    ):
        result = call("rank", *given, *words)
        assert result.exit_code == 2
        assert "name the same file" in result.stderr
    assert given[1].read_bytes() == before
    assert call("rank", *given, "--log-file", "-").exit_code == 2


def test_quiet_and_verbose_exclude_each_other(given):
    assert call("rank", *given, "-q", "-v").exit_code == 2


def test_a_full_disk_ends_the_log_and_not_the_work(given):
    if not Path("/dev/full").exists():
        pytest.skip("no device that is full")
    result = call("rank", *given, "--log-file", "/dev/full", "--jobs", "1")
    assert result.exit_code == 0
    assert result.stderr.count("no more log") == 1


def test_the_log_of_a_program_that_was_ended_is_whole(given, tmp_path):
    (tmp_path / "ends.py").write_text(ENDS)
    log = tmp_path / "log.jsonl"
    words = ("features", *given, "--plugin", tmp_path / "ends.py", "--log-file", log)
    program = "from toruscast.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", program, *map(str, words)], check=False)
    assert ended.returncode == 9
    assert [line["event"] for line in lines_of(log)] == ["began", "read"]


def test_records_of_worker_processes_come_back(caplog):
    import joblib

    with caplog.at_level(logging.INFO, "toruscast"), joblib.parallel_config("loky", n_jobs=2):
        assert Task(tell).in_order([1, 2, 3], 2) == [1, 2, 3]
    repeated = [record for record in caplog.records if record.name == "toruscast.told"]
    assert sorted(record.item for record in repeated) == [1, 2, 3]
    assert all(record.process != os.getpid() for record in repeated)
    caplog.clear()
    with joblib.parallel_config("loky", n_jobs=2):
        Task(tell).in_order([1, 2, 3], 2)
    assert not caplog.records
