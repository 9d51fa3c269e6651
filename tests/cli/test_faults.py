"""Damaged and hostile input gives one line and an exit code."""

import errno
import gzip
import os

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.files import atomic_path, parse_toml

PLUGIN = (
    "from toruscast import register_feature\n"
    "@register_feature('ends_it', description='x')\n"
    "def ends_it(traffic):\n"
    "    raise SystemExit(7)\n"
)


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_plugin_that_ends_the_program_is_reported(tmp_path):
    from toruscast._features import unregister_feature

    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "ring.edges").write_text("0 1 5\n1 0 5\n")
    given = ("--comm", tmp_path / "ring.edges", "--torus", "2", "--candidates", "1")
    try:
        result = call("features", *given, "--plugin", tmp_path / "plugin.py", "--jobs", "1")
    finally:
        unregister_feature("ends_it")
    assert result.exit_code == 1
    assert "ended the program" in result.stderr
    assert result.stderr.count("\n") == 1


def test_keys_of_very_many_parts_are_refused():
    with pytest.raises(InputError, match=r"t\.toml:2: key of too many parts"):
        parse_toml(b"[a]\n" + b"a." * 10_000 + b"b = 1\n", "t.toml")
    assert parse_toml(b'a = "1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1"', "t") is not None


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
    from toruscast.training.store import write_samples

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
    save_predictor(model, tmp_path / "model.npz")
    with pytest.raises(InputError, match="in a model file"):
        load_predictor(tmp_path / "model.npz")


def test_devices_and_pipes_as_models_and_samples(tmp_path):
    from toruscast.training import load_predictor, read_samples

    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/zero", tmp_path / "pipe"):
        for read in (load_predictor, read_samples):
            with pytest.raises(InputError, match="not a regular file"):
                read(place)


@pytest.mark.parametrize("command", ["pmnf fit", "codesign models", "interconnect fit"])
def test_devices_as_measurements(command):
    result = call(*command.split(), "/dev/zero")
    assert result.exit_code == 2
    assert "/dev/zero" in result.stderr
    assert result.stderr.count("\n") == 1


def test_small_packed_files_do_not_fill_the_memory(tmp_path):
    with gzip.open(tmp_path / "many.edges.gz", "wb") as file:
        for _ in range(8):
            file.write(b"0 1 1\n" * 2_000_000)
    with pytest.raises(InputError, match="too large"):
        tc.read_comm(tmp_path / "many.edges.gz")
    np.savez_compressed(tmp_path / "many.npz", n_tasks=2, src=np.zeros(10**7, dtype=np.int64))
    with pytest.raises(InputError, match="too large"):
        tc.read_comm(tmp_path / "many.npz")


def test_very_many_messages_for_one_byte_are_refused():
    comm = tc.CommGraph(2, [0], [1], [1], [100_000])
    torus = tc.Torus((2,), network=tc.Network(header=0))
    with pytest.raises(InputError, match="fewer messages with more bytes each") as caught:
        tc.simulate(comm, torus, tc.TaskMapping([0, 1], torus))
    # No packets are merged, so a smaller coarsening cannot help.
    assert "coarsening" not in str(caught.value)


@pytest.mark.parametrize("line", ["c{}", "n[{}]", "n[{}", "[{}"])
def test_lists_of_very_many_hosts_are_split_in_linear_time(line):
    from toruscast.formats.hosts import split_list

    # An algorithm of quadratic time would take minutes.
    assert len(split_list(",".join(line.format(i) for i in range(60_000)))) >= 60_000


@pytest.mark.slow
def test_tables_of_very_many_columns(tmp_path):
    from toruscast.scaling import read_jobs, read_measurements

    header = ",".join(f"c{i}" for i in range(60_000))
    (tmp_path / "wide.csv").write_text(f"{header}\n{header}\n")
    with pytest.raises(InputError, match="not a table of measurements"):
        read_measurements(tmp_path / "wide.csv")
    with pytest.raises(InputError, match="expected job"):
        read_jobs(tmp_path / "wide.csv")


def test_many_blank_lines_above_a_partitioner_s_graph(tmp_path):
    # An algorithm of quadratic time would take minutes.
    (tmp_path / "a.graph").write_text("\n" * 200_000 + "2 1\n2\n1\n")
    assert tc.read_comm(tmp_path / "a.graph", format="metis").n_edges == 2


@pytest.mark.parametrize("word", [" ", "\n", "[", "[ ", "<!--", "/*", "a", "(", "1 ", "1,", "- "])
@pytest.mark.parametrize("start", ["", "mesh_descriptors", "rank_bindings:", "array("])
def test_every_dialect_recognises_one_word_very_often(tmp_path, start, word):
    from toruscast.formats.registry import match_dialects
    from toruscast.formats.source import Source

    # Patterns with backtracking would take minutes.
    (tmp_path / "a").write_text(start + word * (2**16 // len(word)) + ";")
    assert isinstance(match_dialects(Source(tmp_path / "a")), list)


def test_fields_of_any_length_in_tables_of_times_and_links(tmp_path):
    from toruscast.cli.problem import change_links
    from toruscast.formats import read_runs

    (tmp_path / "a.csv").write_text("mapping,time\n" + "x" * 200_000 + ",1\n")
    for read in (read_runs, lambda path: change_links(tc.Torus((2, 2)), path)):
        with pytest.raises(InputError):
            read(tmp_path / "a.csv")


def test_very_long_arguments_give_short_messages():
    for words in (["x" * 6000], ["rank", "--" + "x" * 6000], ["simulate", "x" * 6000]):
        result = call(*words)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert len(result.stderr) < 1200
