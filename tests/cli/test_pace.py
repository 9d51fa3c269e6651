"""The time that remains, under a clock of our own."""

import io

import pytest

from toruscast.cli.progress import Pace, bar_on_stderr, time_on_stderr


def test_steps_of_one_length_are_foreseen_exactly():
    pace = Pace()
    for done in range(11):
        pace.observe(7.0 * done, done)
    assert pace.left(70.0, 100) == pytest.approx(630)
    assert pace.left(73.0, 100) == pytest.approx(627)


def test_nothing_is_foreseen_before_a_step_is_done():
    pace = Pace()
    assert pace.left(0.0, 10) is None
    pace.observe(0.0, 4)
    assert pace.left(60.0, 10) is None


def test_what_was_there_already_took_no_time():
    pace = Pace()
    pace.observe(0.0, 900)
    pace.observe(10.0, 901)
    assert pace.left(10.0, 1000) == pytest.approx(990)


def test_a_first_step_that_compiles_is_forgotten():
    pace = Pace()
    pace.observe(0.0, 0)
    for done in range(1, 1001):
        pace.observe(30.0 + 0.1 * done, done)
    assert pace.left(130.0, 2000) == pytest.approx(100, rel=0.01)


def test_steps_longer_than_the_window_are_foreseen():
    pace = Pace()
    for done in range(4):
        pace.observe(600.0 * done, done)
    assert pace.left(1800.0, 10) == pytest.approx(4200)


def test_a_step_that_takes_long_leaves_the_time_of_the_others():
    pace = Pace()
    for done in range(3):
        pace.observe(10.0 * done, done)
    assert pace.left(25.0, 5) == pytest.approx(25)
    assert pace.left(500.0, 5) == pytest.approx(20)
    assert pace.left(500.0, 2) == 0


def test_other_work_begins_anew():
    pace = Pace()
    pace.observe(0.0, 0)
    pace.observe(100.0, 50)
    pace.observe(101.0, 0)
    assert pace.left(150.0, 10) is None
    pace.observe(201.0, 1)
    assert pace.left(201.0, 10) == pytest.approx(900)


def test_very_many_calls_are_not_all_kept():
    pace = Pace()
    for i in range(100_000):
        pace.observe(i * 1e-3, i)
    assert len(pace.moments) < 1000
    assert pace.left(100.0, 200_000) == pytest.approx(100, rel=0.01)


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
        move(0, 100)
        clock.now = 36.0
        move(1, 100)
    assert "1/100 0:59:24" in screen.getvalue()


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
