"""Progress bars on a terminal."""

import io

import click

from toruscast.cli.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Put a terminal in place of the standard error stream, and return it."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    return screen


def test_the_bar_shows_what_is_done(monkeypatch):
    screen = terminal(monkeypatch)
    with show_progress("Working") as move:
        move("", 0, 100)
        move("simulations", 1, 100)
    assert "Simulating" in screen.getvalue()
    assert "1/100" in screen.getvalue()


def test_the_bar_of_a_finished_stage_names_the_whole_work(monkeypatch):
    screen = terminal(monkeypatch)
    with show_progress("Ranking") as move:
        move("features", 1, 2)
        move("features", 2, 2)
        screen.truncate(0)
    assert "Ranking" in screen.getvalue()
    assert "2/2" not in screen.getvalue()


def test_no_bar_with_quiet_or_without_a_terminal(monkeypatch):
    screen = terminal(monkeypatch)
    quiet = click.Context(click.Command("rank"))
    quiet.params = {"quiet": True}
    with quiet, show_progress("Working") as move:
        move("", 1, 2)
    assert screen.getvalue() == ""
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with show_progress("Working") as move:
        move("", 1, 2)
