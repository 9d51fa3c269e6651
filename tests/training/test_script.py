import subprocess
import sys
from pathlib import Path

import pytest
from waiting import lifeline, until

from toruscast.errors import InputError
from toruscast.training.plan import script as script_module
from toruscast.training.plan.script import RunError, Script, check_command, last_seconds

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
        ("halo 3d on 8x8x8: 12.5", 12.5),
        ("Elapsed time [s]: 1e3\r\n", 1000.0),
        ("64 tasks took 12.5 sec", 12.5),
        ("real 1.5", 1.5),
    ],
)
def test_the_last_number_is_seconds(text, seconds):
    assert last_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all is well",
        "64 tasks\n-1.5",
        "0",
        "1e-400",
        "1e999",
        "64 tasks\n25ms",
        "64 tasks\n25 ms",
        "took 25 milliseconds",
        "3 mins",
        "3 h",
        "elapsed (ms): 25",
        "time_us=3",
        "timeMs=3",
        "25 \xb5s",
        "rate (MB/s): 12",
        "50 %",
        "1.5s/it",
        "1.5\nnan",
        "1.5\ninf",
        "elapsed: 1,234.5 s",
        "1.234,5",
        "1 234.5 s",
        "1'234.5",
        "1_234.5",
        "1.5.2",
        "12:34.5",
        "12: 4.5",
        "0m1.500s",
        "2 min 30 s",
        "2 minutes and 30 s",
        "1.5 +- 0.1 s",
        "3.5(2)",
        "1/3",
        "1.2, 1.3",
        "12.5 s on 64 nodes",
        "0x10",
        "\uff11\uff12",
    ],
)
def test_what_is_no_plain_number_of_seconds_is_refused(text):
    found = text.splitlines()[-1] if any(sign.isdigit() for sign in text) else "no number"
    with pytest.raises(ValueError, match="expected positive seconds at the end") as refused:
        last_seconds(text)
    assert f"found {found}, " in str(refused.value)


def test_a_number_is_never_read_from_its_middle(tmp_path, monkeypatch):
    monkeypatch.setattr(script_module, "_TAIL", 8)
    script = Script("printf '12345.5      ' # {map}", tmp_path / ".run", 60)
    with pytest.raises(RunError, match="no number"):
        script.run("a", write, {})
    script = Script("printf 'noise\\n1234.5\\n' # {map}", tmp_path / ".run", 60)
    assert script.run("a", write, {}) == 1234.5


@pytest.mark.parametrize(
    "command",
    [
        "./job.sh {map}",
        "./job.sh --map={map} --copy={map}.bak",
        'echo "tasks: $(wc -l < {map})"',
        "echo \"it's\"; ./job.sh {map} # it's a {map}",
        './job.sh \'a\' {map} \\" "b"',
        "(cd x && ./job.sh ${FLAGS:-} {map})",
    ],
)
def test_the_file_of_the_mapping_stands_where_a_word_may(command):
    check_command(command)


@pytest.mark.parametrize(
    "command",
    [
        'echo 2; : "{map}"',
        "sh -c './job.sh {map}'",
        'eval "./job.sh --fast {map}"',
        'echo "$(cat "{map}")"',
        "echo `cat {map}`",
        "./job.sh \\{map}",
        "./job.sh ${OTHER:-{map}}",
        "cat <<END\n{map}\nEND",
        "./job.sh",
    ],
)
def test_quotes_around_the_file_of_the_mapping_are_refused(command, tmp_path):
    with pytest.raises(InputError, match=r"expected \./job\.sh \{map\}"):
        Script(command, tmp_path / ".run", 60)


def test_no_shell_reads_the_name_of_a_file(tmp_path):
    name = "$(touch PWNED) `touch PWNED`; touch PWNED; '\"*"

    def write_named(folder):
        (folder / name).write_text("2.5\n")
        return folder / name

    script = Script("cd " + str(tmp_path) + "; cat {map}", tmp_path / ".run", 60)
    assert script.run("a", write_named, {}) == 2.5
    assert [path.name for path in tmp_path.iterdir()] == [".run"]
    script.settle()
    assert not script.folder.exists()


def test_only_the_files_of_a_run_are_removed(tmp_path):
    folder = tmp_path / ".run"
    folder.mkdir()
    (folder / "runs.csv").write_text("a,1\n")
    script = Script("echo 1 # {map}", folder, 60)
    script.run("a", write, {})
    script.settle()
    assert [path.name for path in folder.iterdir()] == ["runs.csv"]
    # The note of another program names a file elsewhere.
    (tmp_path / "mine").write_text("a,1\n")
    (folder / "run.json").write_text('{"mapping": "a", "file": "../mine"}')
    script.settle()
    assert (tmp_path / "mine").exists()


def test_a_script_gets_the_file_and_gives_seconds(tmp_path):
    folder = tmp_path / "my runs" / ".run"
    script = Script("cat {map} && echo $(wc -l < {map}).5; echo noise >&2", folder, 60)
    assert script.run("a", write, {}) == 1.5
    assert script.left() == {"mapping": "a", "file": "it's.map"}
    assert not script.is_running()
    script.settle()
    assert not folder.exists()
    assert script.left() is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo out of luck >&2; exit 3; {map}", "run of a failed, exit status 3: out of luck"),
        ("no-such-command {map}", "run of a failed, exit status 127: .*not found"),
        ("exit 1 {map}", "run of a failed, exit status 1"),
        ("echo ( {map}", "run of a failed, exit status 2"),
        ("echo -5 # {map}", "run of a gave no time: found -5"),
        ("echo done # {map}", "run of a gave no time: found no number"),
        ("kill -9 $PPID; sleep 5 # {map}", "run of a was killed"),
    ],
)
def test_a_script_that_gives_no_time_is_told_in_a_line(tmp_path, command, said):
    script = Script(command, tmp_path / ".run", 60)
    with pytest.raises(RunError, match=said) as told:
        script.run("a", write, {})
    assert "\n" not in str(told.value)
    assert not script.folder.exists()


def test_a_script_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    with lifeline(tmp_path / "held") as all_are_gone:
        # What it starts holds the pipe open as long as it lives.
        hangs = f"exec 9> {tmp_path}/held; sleep 1000 & wait # {{map}}"
        script = Script(hangs, tmp_path / ".run", 0.5)
        with pytest.raises(RunError, match=r"run of a ended after 0.5 s"):
            script.run("a", write, {})
        assert not script.folder.exists()
        until(all_are_gone)


def test_the_time_of_a_run_outlives_who_began_it(tmp_path):
    folder, gate = tmp_path / ".run", tmp_path / "gate"
    command = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo 4.5 # {{map}}"
    process = subprocess.Popen([sys.executable, "-c", HELD, command, str(folder)])
    script = Script(command, folder, 60)
    until(lambda: (folder / "err").exists() and script.is_running())
    assert process.poll() is None
    process.kill()
    process.wait()
    assert script.is_running()
    assert script.left() == {"mapping": "a", "file": "a.map", "size": 7}
    with pytest.raises(RunError, match="still goes on"):
        Script(command, folder, 0.01).outcome_of_left()
    gate.touch()
    assert script.outcome_of_left() == 4.5
    script.settle()


def test_what_was_left_broken_is_no_run(tmp_path):
    script = Script("echo 1 # {map}", tmp_path / ".run", 60)
    for text in ("", "[]", "{"):
        script.folder.mkdir(exist_ok=True)
        (script.folder / "run.json").write_text(text)
        assert script.left() is None
    (script.folder / "status").write_text("1\n")
    assert script.outcome_of_left() is None
    assert script.run("b", lambda folder: Path(folder), {}) == 1.0
