"""Readers of public measurements, on small files made up and on the real ones."""

import numpy as np
import pandas as pd
import pytest

from studies.blue_gene.link_counters import read_link_counters
from studies.blue_gene.recorded_routes import read_hop_bytes, read_static_routes
from studies.blue_waters.amg_messages import read_amg_messages
from studies.blue_waters.line_contention import read_line_contention
from toruscast.errors import InputError

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


def block(header="A*x", time="1e-05", **fields):
    fields = {
        "Max Num Msgs": 3,
        "Total Bytes": 100,
        "Byte Hops": 200,
        "Num Active Processes": 4,
    } | fields
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items() if value != "")
    return f"{header}\n{lines}Comm Time: {time}\n"


CLASSES = {
    f"{word} {protocol}{place}": 0
    for word in ("Num", "Size")
    for protocol in ("Short", "Eager", "Rend")
    for place in ("", " Node", " Socket")
}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # Products with the transposed prolongation, and a communication under another word.
        (block("P.T*AP:"), "of another operator"),
        (block("P.T*r"), "of another operator"),
        (block("P.T*AP TAP:"), "of another operator"),
        (block("R Communication:"), "of another operator"),
        (block("Smoother:"), "of another operator"),
        (block("Coarse Vector Communication"), "of another operator"),
        # First of the network, then of one process, with byte-hops that are bytes.
        (block("A*P:", **{"Byte Hops": "100\nTotal Bytes = 60"}), "two counts"),
        (block(**{"Byte Hops": 100}), "in place of byte-hops"),
        # One process sent 100 bytes, all of them together crossed too many links for that.
        (block(**{"Byte Hops": 5000}), "bytes of one process"),
        (block(**CLASSES | {"Size Eager": 100}), "bytes of one process"),
        (block(**{"Max Num Msgs": ""}), "without the most messages"),
    ],
)
def test_blocks_of_other_layouts_are_left_out_and_counted(write, text, reason):
    table = read_amg_messages(write(f"Level 0\n{block('A*P:')}\n{text}{block()}Level 1\n{text}"))
    assert table[["matrix", "total_nbytes"]].values.tolist() == [[True, 100], [False, 100]]
    (found,) = table.attrs["left_out"].items()
    assert (reason in found[0], found[1]) == (True, 2)
    alone = read_amg_messages(write(f"Level 0\n{text}", "nameless.out"))
    assert (len(alone), sum(alone.attrs["left_out"].values())) == (0, 1)
    assert list(alone.columns) == list(table.columns)


@pytest.mark.parametrize("tail", ["Comm Time: 6", "Comm Time: 6.68e-0", "Total Bytes = ", "A*"])
def test_a_last_line_that_was_cut_is_not_believed(write, tail):
    table = read_amg_messages(write(f"Level 0\n{BLOCK}Level 1\n{BLOCK[: BLOCK.find('Max')]}{tail}"))
    assert table["time"].tolist() == [1e-05]


def test_a_time_that_was_cut_is_not_believed(write):
    head = "master: 0,\npartner: 1,\n"
    sizes = "Num Msgs 1\nSizeMsgs {}\n6.68e-06 6.70e-06\n"
    text = head + sizes.format(1) + sizes.format(2)
    assert len(read_line_contention(write(text))) == 4
    cut = read_line_contention(write(text[:-5]))
    assert cut["time"].tolist() == [6.68e-06, 6.7e-06]


HEADER = "Job Id:\t8711073.bw\nJob name:\taniso_512\nRequested resources:\tnodes=32:ppn=32:xe\n"


@pytest.mark.parametrize(
    ("name", "header", "count"),
    [
        ("8509542.bw.out", HEADER, 512),
        ("8509542.bw.out", HEADER.replace("aniso_512", "aniso"), None),
        ("8711073_aniso_512.out", "", 512),
        ("aniso_512_8711073.bw.out", "", 512),
        ("aniso_512_71073.bw.out", "", 512),
        ("aniso_2048.out", HEADER, 512),
        ("aniso_2_64.out", "", 64),
        ("aniso_64.out", HEADER.replace("512", "2048"), 64),
        ("8711073.out", "", None),
        ("aniso.out", "", None),
        ("aniso_2.out", "", None),
        ("aniso_64.out", HEADER + HEADER.replace("512", "1024"), None),
    ],
)
def test_number_of_processes(write, name, header, count):
    path = write(f"{header}Level 0\n{BLOCK}", name)
    if count is None:
        with pytest.raises(InputError, match=name):
            read_amg_messages(path)
    else:
        assert read_amg_messages(path)["n_processes"].tolist() == [count]
    assert read_amg_messages(path, n_processes=4)["n_processes"].tolist() == [4]


def test_every_row_of_the_real_amg_files(shared_data):
    folder = shared_data / "bluewatersmodel" / "amg_models"
    table = pd.concat(read_amg_messages(path) for path in sorted(folder.glob("*.out")))
    times = sum(path.read_text().count("Comm Time:") for path in folder.glob("*.out"))
    assert len(table) == times
    assert not table.attrs["left_out"]
    assert sorted(table["n_processes"].unique()) == [128, 512, 1024, 2048, 8192]
    assert np.isfinite(table[["total_nbytes", "byte_hops", "time"]]).all(axis=None)
