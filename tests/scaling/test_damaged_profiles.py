"""Damaged measurements in JSON and damaged Cube profiles: read, or one line on what is wrong."""

import gzip
import io
import json
import random
import struct
import tarfile
import warnings
import zlib

import pytest

from toruscast.errors import InputError
from toruscast.scaling import ScalingWarning, read_measurements

ANCHOR = """<?xml version="1.0" encoding="UTF-8"?>
<cube version="4.4"><metrics><metric id="0" type="EXCLUSIVE"><disp_name>Time</disp_name>
<uniq_name>time</uniq_name><dtype>DOUBLE</dtype><uom>sec</uom><url></url><descr></descr></metric>
</metrics><program><region id="0" mod="" begin="-1" end="-1"><name>main</name></region>
<region id="1" mod="" begin="-1" end="-1"><name>solve</name></region>
<cnode id="0" calleeId="0"><cnode id="1" calleeId="1"></cnode></cnode></program>
<system><systemtreenode Id="0" class="machine"><name>m</name><locationgroup Id="0"><name>p</name>
<rank>0</rank><type>process</type><location Id="0"><name>t</name><rank>0</rank><type>thread</type>
</location></locationgroup></systemtreenode></system></cube>
"""
TABLES = {
    "parameters": [{"id": 1, "name": "p"}],
    "metrics": [{"id": 1, "name": "time"}],
    "callpaths": [{"id": 1, "name": "main"}],
    "coordinates": [
        {"id": k, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": p}]}
        for k, p in enumerate((2, 4, 8))
    ],
    "measurements": [
        {"id": k, "metric_id": 1, "callpath_id": 1, "coordinate_id": k, "value": 1.5 * k}
        for k in range(3)
    ],
}
CALLPATHS = {
    "parameters": ["p"],
    "measurements": {"main": {"time": [{"point": [p], "values": [1.5, 2.5]} for p in (2, 4, 8)]}},
}


# The package leaves a file open that it cannot read.
LEFT_OPEN = "ignore::pytest.PytestUnraisableExceptionWarning"


def profile(main, solve):
    """A profile of one thread, as Score-P packs it."""
    stored = io.BytesIO()
    index = b"CUBEX.INDEX" + struct.pack("<ih", 1, 0) + b"\1" + struct.pack("<i2i", 2, 0, 1)
    files = {
        "anchor.xml": ANCHOR.encode(),
        "0.index": index,
        "0.data": b"CUBEX.DATA" + struct.pack("<2d", main, solve),
    }
    with tarfile.open(fileobj=stored, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stored.getvalue()


def damaged(content, seed, used):
    """A file cut, swapped, in another encoding, or with a strange number or byte."""
    rng = random.Random(seed)
    at, to = sorted(rng.sample(range(used), 2))
    return rng.choice(
        (
            lambda: content[:at],
            lambda: content[:at] + content[to:],
            lambda: content[:at] + content[to : to + 9] + content[at:],
            lambda: content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
            lambda: content[:at] + b"9" * 400 + content[at:],
            lambda: content[:at] + b"1e999" + content[at:],
            lambda: content.decode("latin-1").encode("utf-16"),
            lambda: content[::-1],
        )
    )()


def said_by(path):
    """The words of the error, if there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScalingWarning)
            read_measurements(path)
    except InputError as error:
        return str(error)
    return ""


def check_json(folder, document, seeds):
    path = folder / "data.json"
    content = json.dumps(document, indent=1).encode()
    path.write_bytes(content)
    assert not said_by(path)
    refused = 0
    for seed in seeds:
        path.write_bytes(damaged(content, seed, len(content)))
        words = said_by(path)
        refused += bool(words)
        assert "\n" not in words
        assert words.startswith(str(path) if words else "")
    assert refused > len(seeds) // 4


def check_cube(folder, seeds):
    pytest.importorskip("pycubexr", reason="pycubexr is not installed")
    paths = []
    for p in (2, 4, 8):
        run = folder / f"app.p{p}.r1"
        run.mkdir()
        paths.append(run / "profile.cubex")
        paths[-1].write_bytes(profile(1.5 * p, 0.25))
    (found,) = read_measurements(folder)
    assert found.callpaths == ("main", "main->solve")
    assert found.values.ravel().tolist() == [3, 6, 12, 0.25, 0.25, 0.25]
    content = profile(3.0, 0.25)
    refused = 0
    for seed in seeds:
        # Behind the files there is nothing but zeros.
        paths[0].write_bytes(damaged(content, seed, 6000))
        words = said_by(folder)
        refused += bool(words)
        assert "\n" not in words
        assert words.startswith(str(folder) if words else "")
    assert refused > len(seeds) // 4


@pytest.mark.parametrize("document", [TABLES, CALLPATHS], ids=["tables", "callpaths"])
def test_damaged_json(tmp_path, document):
    check_json(tmp_path, document, range(30))


def packed_profile(data):
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as archive:
        for name, content in {"anchor.xml": ANCHOR.encode(), **data}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stored.getvalue()


@pytest.mark.parametrize("kind", ["data", "anchor", "whole"])
def test_small_profiles_that_unpack_to_very_much_are_refused(tmp_path, kind):
    from toruscast.scaling.formats.cube import check_unpacked_size

    zeros = bytes(2**27)
    part = zlib.compress(zeros[: 2**26])
    content = {
        "data": packed_profile(
            {"0.data": b"ZCUBEX.DATA" + struct.pack("<7q", 2, 0, 0, len(part), 0, 0, 0) + part * 2}
        ),
        "anchor": packed_profile({"anchor.xml": gzip.compress(zeros)}),
        "whole": gzip.compress(packed_profile({"0.data": zeros})),
    }[kind]
    (tmp_path / "profile.cubex").write_bytes(content)
    assert len(content) < 2**20
    with pytest.raises(InputError, match=r"unpacks to too much|is a packed file"):
        check_unpacked_size(tmp_path / "profile.cubex")


@pytest.mark.filterwarnings(LEFT_OPEN)
def test_damaged_cube_profiles(tmp_path):
    check_cube(tmp_path, range(30))


@pytest.mark.slow
@pytest.mark.parametrize("document", [TABLES, CALLPATHS], ids=["tables", "callpaths"])
def test_much_damaged_json(tmp_path, document):
    check_json(tmp_path, document, range(100, 300))


@pytest.mark.slow
@pytest.mark.filterwarnings(LEFT_OPEN)
def test_many_damaged_cube_profiles(tmp_path):
    check_cube(tmp_path, range(100, 300))
