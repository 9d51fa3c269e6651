"""Readers of public measurements, on small files made up and on the real ones."""

import numpy as np
import pandas as pd
import pytest

from toruscast.datasets.public import (
    read_amg_messages,
    read_hop_bytes,
    read_line_contention,
    read_link_counters,
    read_static_routes,
)
from toruscast.mapping import InputError

BLOCK = """A*x
Max Num Msgs: 3
Byte Hops = 200
Total Bytes = 100
Num Active Processes: 4
Comm Time: 1e-05
"""


@pytest.fixture
def write(tmp_path):
    def _write(text, name="made_up_8.out"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return _write


def test_runs_levels_and_cut_off_blocks(write):
    cut = "A*P:\nTotal Bytes = 5\n"
    table = read_amg_messages(
        write(f"title\nLevel 0\n{BLOCK}Level 1\n{BLOCK}{cut}Level 0\n{BLOCK}")
    )
    assert table[["run", "level"]].values.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert table["n_processes"].unique().tolist() == [8]
    assert table["n_short_node"].isna().all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Total Bytes = 100", "Total Bytes = -1", ":5: bad number"),
        ("Total Bytes = 100\n", "", "field missing"),
        ("1e-05", "0", ":7: bad time"),
        ("1e-05", "nan", ":7: bad time"),
        ("Byte Hops = 200", "Byte Hops = 200\nByte Hops = 200", "given twice"),
        ("Byte Hops = 200", "Byte Hops = 200\nNum Short: 1", "field missing"),
        ("A*x\n", "", "outside a communication"),
        ("Comm Time: 1e-05", "", "no measurement"),
    ],
)
def test_faults_of_amg_files(write, old, new, message):
    assert old in BLOCK
    with pytest.raises(InputError, match=message):
        read_amg_messages(write("Level 0\n" + BLOCK.replace(old, new)))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_line_contention, "master: 0,\npartner: 1, 2,\nNum Msgs 1\nSizeMsgs 1\n1e-6\n"),
        (read_line_contention, "master: 0,\npartner: 1,\nNum Msgs 1\nSizeMsgs 1\nabc\n"),
        (read_line_contention, "master: 0,\npartner: 1,\nNum Msgs 0\nSizeMsgs 1\n1e-6\n"),
        (read_link_counters, "---\n- [a, int32]\n...\n1 2\n"),
        (read_link_counters, "---\n- [a, int32]\n...\nx\n"),
        (read_link_counters, "1 2\n"),
        (read_static_routes, "Hop 1: [0-1] 0 (0 0) -> 1 (0 1)\n"),
        (read_hop_bytes, "0 1 -5 1\n"),
        (read_hop_bytes, "0 1 5\n"),
    ],
)
def test_faults_name_the_file(write, read, text):
    with pytest.raises(InputError, match=r"made_up_8\.out"):
        read(write(text))


def test_every_row_of_the_real_amg_files(shared_data):
    folder = shared_data / "bluewatersmodel" / "amg_models"
    table = pd.concat(read_amg_messages(path) for path in sorted(folder.glob("*.out")))
    times = sum(path.read_text().count("Comm Time:") for path in folder.glob("*.out"))
    assert len(table) == times
    assert sorted(table["n_processes"].unique()) == [128, 512, 1024, 2048, 8192]
    assert np.isfinite(table[["total_nbytes", "byte_hops", "time"]]).all(axis=None)
