"""Damaged and hostile input ends in one line and an exit code."""

import errno
import os

import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.errors import InputError, MissingFileError
from toruscast.files import check_regular, parse_toml
from toruscast.mapping.formats import atomic_path

PLUGIN = (
    "from toruscast.features import register\n"
    "@register('ends_it', description='x')\n"
    "def ends_it(traffic):\n"
    "    raise SystemExit(7)\n"
)


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_plugin_that_ends_the_program_is_told(tmp_path):
    from toruscast.features import unregister

    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "ring.edges").write_text("0 1 5\n1 0 5\n")
    given = ("--comm", tmp_path / "ring.edges", "--torus", "2", "--candidates", "1")
    try:
        result = call("features", *given, "--plugin", tmp_path / "plugin.py", "--jobs", "1")
    finally:
        unregister("ends_it")
    assert result.exit_code == 1
    assert "ended the program" in result.stderr
    assert result.stderr.count("\n") == 1


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(InputError, match="not a regular file"):
            check_regular(place)
    with pytest.raises(MissingFileError):
        check_regular(tmp_path / "absent")


def test_keys_of_very_many_parts_are_refused():
    with pytest.raises(InputError, match=r"t\.toml:2: key of too many parts"):
        parse_toml("[a]\n" + "a." * 10_000 + "b = 1\n", "t.toml")
    assert parse_toml('a = "1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1"', "t") is not None


def test_messages_hold_no_control_characters_and_stay_short():
    error = InputError("bad\x1b[2J", file="a\x07" * 3000, found="\x1b")
    assert str(error).isprintable()
    assert len(str(error)) < 1200


def test_a_full_disk_names_the_file(tmp_path):
    target = tmp_path / "out.csv"

    def fill():
        with atomic_path(target):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"out\.csv"):
        fill()
    assert not list(tmp_path.iterdir())
