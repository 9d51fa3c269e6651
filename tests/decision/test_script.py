import pytest
from waiting import lifeline, until

from toruscast.decision import run_loop as script_module
from toruscast.decision.run_loop import RunError, check_command, last_seconds, run_script
from toruscast.errors import InputError


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


@pytest.fixture
def run(tmp_path):
    """Run a command on a file in a folder whose name needs quotes."""
    file = tmp_path / "my $(touch PWNED) runs" / "a.map"
    file.parent.mkdir()
    file.write_text("the mapping\n")
    return lambda command, timeout=60: run_script(command, "a", file, timeout)


def test_a_number_is_never_read_from_its_middle(run, monkeypatch):
    monkeypatch.setattr(script_module, "_TAIL_BYTES", 8)
    with pytest.raises(RunError, match="no number"):
        run("printf '12345.5      '")
    assert run("printf 'noise\n1234.5\n'") == 1234.5


@pytest.mark.parametrize(
    "command",
    ["./job.sh", "sh -c './job.sh {map}'", 'echo "$(cat {map})"', "cat <<END\n{map}\nEND"],
)
def test_a_command_that_would_lose_the_file_is_refused(command, tmp_path):
    with pytest.raises(InputError):
        check_command(command, tmp_path / "my runs")
    check_command("./job.sh --map={map} $(wc -l < {map})", tmp_path / "my runs")


def test_a_script_gets_the_file_and_gives_seconds(run, tmp_path):
    assert run("cat {map} && echo $(wc -l < {map}).5; echo noise >&2") == 1.5
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.map"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo out of luck >&2; exit 3", "run of a failed, exit status 3: out of luck"),
        ("no-such-command", "run of a failed, exit status 127: .*not found"),
        ("exit 1", "run of a failed, exit status 1"),
        ("echo (", "run of a failed, exit status 2"),
        ("echo -5", "run of a printed no time: found -5"),
        ("echo done", "run of a printed no time: found no number"),
        ("kill -9 $$; sleep 5", "run of a was killed"),
    ],
)
def test_a_script_that_gives_no_time_is_an_error_of_a_line(run, command, reason):
    with pytest.raises(RunError, match=reason) as error:
        run(command)
    assert "\n" not in str(error.value)


def test_a_script_that_hangs_is_ended_with_all_that_it_started(run, tmp_path):
    with lifeline(tmp_path / "held") as all_are_gone:
        # A child of the script keeps the pipe open until it ends.
        with pytest.raises(RunError, match=r"run of a was killed after 0.5 s"):
            run(f"exec 9> {tmp_path}/held; sleep 1000 & wait", 0.5)
        until(all_are_gone)
