import subprocess
import sys
import time
from pathlib import Path

import pytest

from toruscast.training.plan.script import RunError, Script, last_seconds

HELD = """
import sys
from pathlib import Path
from toruscast.training.plan.script import Script

def write(folder):
    (folder / "a.map").write_text("1")
    return folder / "a.map"

Script(sys.argv[1], sys.argv[2], 60).run("a", write, {"size": 7})
"""


def write(folder):
    (folder / "it's.map").write_text("the mapping\n")
    return folder / "it's.map"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.5\n", 1.5),
        ("64 tasks\nelapsed=2.5e-3s\n", 0.0025),
        ("time: .25 s.\nall is well\n", 0.25),
        ("(took 3 seconds)\n", 3.0),
        ("step-7 of x2 12.5", 12.5),
    ],
)
def test_the_last_number_is_seconds(text, seconds):
    assert last_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no number"),
        ("all is well", "no number"),
        ("64 tasks\n-1.5", "-1.5"),
        ("0", "0"),
        ("64 tasks\n25ms", "25ms"),
        ("64 tasks\n25 ms", "25 ms"),
        ("1.5\nnan", "nan"),
        ("1e999", "1e999"),
        ("inf", "inf"),
        ("1,234.5.6", "234.5.6"),
    ],
)
def test_what_is_no_time_is_told(text, found):
    with pytest.raises(ValueError, match=f"found {found}, expected positive seconds"):
        last_seconds(text)


def test_a_script_gets_the_file_and_gives_seconds(tmp_path):
    folder = tmp_path / "my runs" / ".run"
    script = Script("cat {map} && echo $(wc -l < {map}).5; echo noise >&2", folder, 60)
    assert script.run("a", write, {}) == 1.5
    assert script.left() == {"mapping": "a"}
    assert not script.is_running()
    script.settle()
    assert not folder.exists()
    assert script.left() is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo out of luck >&2; exit 3; {map}", "run of a failed, exit status 3: out of luck"),
        ("no-such-command {map}", "run of a failed, exit status 127: .*not found"),
        ("exit 1 {map", "run of a failed, exit status 1"),
        ("echo (", "run of a failed, exit status 2"),
        ("echo -5", "run of a gave no time: found -5"),
        ("echo done", "run of a gave no time: found no number"),
        ("kill -9 $PPID; sleep 5", "run of a was killed"),
    ],
)
def test_a_script_that_gives_no_time_is_told_in_a_line(tmp_path, command, said):
    script = Script(command, tmp_path / ".run", 60)
    with pytest.raises(RunError, match=said) as told:
        script.run("a", write, {})
    assert "\n" not in str(told.value)
    assert not script.folder.exists()


def test_a_script_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    mark = tmp_path / "mark"
    script = Script(f"(sleep 3; touch {mark}) & sleep 60; echo 1", tmp_path / ".run", 0.3)
    with pytest.raises(RunError, match=r"run of a ended after 0.3 s"):
        script.run("a", write, {})
    assert not script.folder.exists()
    time.sleep(3.2)
    assert not mark.exists()


def test_the_time_of_a_run_outlives_who_began_it(tmp_path):
    folder, gate = tmp_path / ".run", tmp_path / "gate"
    command = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo 4.5"
    process = subprocess.Popen([sys.executable, "-c", HELD, command, str(folder)])
    script = Script(command, folder, 60)
    while not (folder / "err").exists() or not script.is_running():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert script.is_running()
    assert script.left() == {"mapping": "a", "size": 7}
    with pytest.raises(RunError, match="still goes on"):
        Script(command, folder, 0.01).outcome_of_left()
    gate.touch()
    assert script.outcome_of_left() == 4.5
    script.settle()


def test_what_was_left_broken_is_no_run(tmp_path):
    script = Script("echo 1", tmp_path / ".run", 1)
    for text in ("", "[]", "{"):
        script.folder.mkdir(exist_ok=True)
        (script.folder / "run.json").write_text(text)
        assert script.left() is None
    (script.folder / "status").write_text("1\n")
    assert script.outcome_of_left() is None
    assert script.run("b", lambda folder: Path(folder), {}) == 1.0
