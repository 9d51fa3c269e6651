"""Damaged and hostile input ends in one line and an exit code."""

import errno
import os

import numpy as np
import pandas as pd
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


def test_samples_that_would_lose_their_values_are_refused(tmp_path):
    from toruscast.training import read_samples
    from toruscast.training.sample_store import write_samples

    table = pd.DataFrame({name: ["a", "b"] for name in ("workload", "torus", "mapping", "key")})
    table["time"] = [1.0, 2.0]
    write_samples(table, tmp_path / "good.parquet", {})
    assert len(read_samples(tmp_path / "good.parquet")) == 2
    for key, words in (([None, "b"], "column key"), (["a", "a"], "samples with one key differ")):
        write_samples(table.assign(key=key), tmp_path / "bad.parquet", {})
        with pytest.raises(InputError, match=words):
            read_samples(tmp_path / "bad.parquet")
    write_samples(table.assign(time=["x", "y"]), tmp_path / "bad.parquet", {})
    with pytest.raises(InputError, match="column time of samples"):
        read_samples(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("name", "value"),
    [("target_scale_", -1.0), ("target_scale_", 1e300), ("target_shift_", 1e300)],
)
def test_models_with_absurd_numbers_are_refused(tmp_path, name, value):
    from toruscast.training import TimePredictor, load_predictor, save_predictor

    model = TimePredictor(n_estimators=5).fit(np.eye(6), np.arange(1.0, 7.0))
    setattr(model, name, value)
    save_predictor(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match="in a model file"):
        load_predictor(tmp_path / "model.skops")


def test_devices_and_pipes_as_models_and_samples(tmp_path):
    from toruscast.training import load_predictor, read_samples

    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/zero", tmp_path / "pipe"):
        for read in (load_predictor, read_samples):
            with pytest.raises(InputError, match="not a regular file"):
                read(place)
