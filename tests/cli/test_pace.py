"""The time that remains, under a clock of our own."""

import io

from toruscast.cli.output import Output
from toruscast.cli.progress import bar_on_stderr, time_on_stderr
from toruscast.text import part_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Put a terminal in place of the standard error stream, and return it."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    return screen


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_bar_shows_the_time_that_remains(monkeypatch):
    screen = terminal(monkeypatch)
    clock = Clock()
    with bar_on_stderr("Working", False, clock=clock) as move:
        # The first step compiled: it does not count.
        for clock.now, done in ((500.0, 1), (600.0, 2), (800.0, 4)):
            move(done, 100)
    assert "4/100 2:40:00" in screen.getvalue()


def test_without_a_number_the_bar_shows_the_time_that_has_passed(monkeypatch):
    screen = terminal(monkeypatch)
    clock = Clock()
    with bar_on_stderr("Working", False, clock=clock):
        pass
    assert "0:00:00 so far" in screen.getvalue()


def test_a_bar_of_time_counts_down(monkeypatch):
    screen = terminal(monkeypatch)
    clock = Clock()
    with time_on_stderr("Searching", 90.0, False, clock=clock):
        pass
    assert "Searching" in screen.getvalue()
    assert "0:01:30" in screen.getvalue()


def test_nothing_is_shown_to_who_wants_quiet_or_has_no_terminal(monkeypatch):
    screen = terminal(monkeypatch)
    with bar_on_stderr("Working", True) as move, time_on_stderr("Working", 1.0, True):
        move(1, 2)
    assert screen.getvalue() == ""


def test_progress_shows_in_a_terminal(monkeypatch):
    screen = terminal(monkeypatch)
    with Output(quiet=True).progress("Working") as move:
        move(1, 10)
    assert screen.getvalue() == ""
    with Output().progress("Working") as move:
        move(1, 4)
    assert "Working" in screen.getvalue()
    assert "1/4" in screen.getvalue()
    assert "Resting" not in screen.getvalue()
    with Output().progress("Working") as move:
        move(4, 4, "Resting")
    assert "Resting" in screen.getvalue()


def test_progress_of_a_simulation_counts_packet_hops(monkeypatch):
    screen = terminal(monkeypatch)
    with Output().progress("Simulating", count=part_of("packet-hops")) as move:
        move(1_000_000, 4_000_000)
    assert "25 % of 4 million packet-hops" in screen.getvalue()


def test_no_progress_without_a_terminal(capsys):
    with Output().progress("Working") as move:
        move(1, 10)
    assert capsys.readouterr().err == ""
