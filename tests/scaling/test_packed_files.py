"""Packed files: Extra-P's projects and Cube profiles, whole and damaged."""

import gzip
import io
import json
import random
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.scaling import ScalingWarning, read_measurements
from toruscast.scaling.profiles import check_unpacked_size

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


def project(values=True):
    """Return a project as Extra-P 4.2 writes it, with its repetitions or without."""
    stored, places = io.BytesIO(b"Extra-P VALUES\0\0"), []
    stored.seek(0, io.SEEK_END)
    rows = []
    for k, p in enumerate((2.0, 4.0)):
        places.append(stored.tell())
        np.lib.format.write_array(stored, np.array([p, p + 1]))
        rows.append({"coordinate": [p], "median": p + 0.5, "repetitions": 2})
        rows[-1]["values"] = [0, k] if values else None
    document = {"Extra-P": "4.2.5", "parameters": ["p"], "measurements": {"main": {"time": rows}}}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("values/0.vals", stored.getvalue())
        index = struct.pack(f"<{len(places) + 1}Q", len(places), *places)
        archive.writestr("values/0.indx", b"Extra-P INDEX\0\0\0" + index)
        archive.writestr("experiment.json", json.dumps(document))
    return packed.getvalue()


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "data"
        path.write_bytes(content)
        return read_measurements(path)[0]

    return read


def test_a_project_with_its_repetitions(read):
    assert read(project()).values.tolist() == [[[2, 3], [4, 5]]]


def test_a_project_without_repetitions(read):
    with pytest.warns(ScalingWarning, match="contains only medians"):
        found = read(project(values=False))
    assert found.values.tolist() == [[[2.5], [4.5]]]


def test_a_project_that_unpacks_to_too_much(read):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("experiment.json", b" " * (65 * 2**20))
    with pytest.raises(InputError, match="unpacks to too much"):
        read(packed.getvalue())


def test_folders_of_cube_profiles_are_checked(tmp_path):
    with pytest.raises(InputError, match="without Cube profiles"):
        read_measurements(tmp_path)
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "profile.cubex").write_bytes(b"x")
    with pytest.raises(InputError, match="folder name without parameters"):
        read_measurements(tmp_path)
    (tmp_path / "profile").rename(tmp_path / "app.p64.n1,5.r1")
    with pytest.raises(InputError, match=r"damaged Cube profile|needs the package pycubexr"):
        read_measurements(tmp_path)


def cubex(**files):
    """A Cube profile: a tar of files."""
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as packed:
        for name, content in {"anchor.xml": ANCHOR.encode(), **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return stored.getvalue()


def profile(main, solve):
    """A profile of one thread, as Score-P packs it."""
    index = b"CUBEX.INDEX" + struct.pack("<ih", 1, 0) + b"\1" + struct.pack("<i2i", 2, 0, 1)
    data = b"CUBEX.DATA" + struct.pack("<2d", main, solve)
    return cubex(**{"0.index": index, "0.data": data})


@pytest.mark.parametrize("kind", ["data", "anchor", "whole"])
def test_small_profiles_that_unpack_to_very_much_are_refused(tmp_path, kind):
    zeros = bytes(2**27)
    part = zlib.compress(zeros[: 2**26])
    data = b"ZCUBEX.DATA" + struct.pack("<7q", 2, 0, 0, len(part), 0, 0, 0) + part * 2
    content = {
        "data": cubex(**{"0.data": data}),
        "anchor": cubex(**{"anchor.xml": gzip.compress(zeros)}),
        "whole": gzip.compress(cubex(**{"0.data": zeros})),
    }[kind]
    (tmp_path / "profile.cubex").write_bytes(content)
    assert len(content) < 2**20
    with pytest.raises(InputError, match=r"unpacks to too much|is a packed file"):
        check_unpacked_size(tmp_path / "profile.cubex")


# The package leaves a file open that it cannot read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_damaged_cube_profiles(tmp_path):
    pytest.importorskip("pycubexr", reason="pycubexr is not installed")
    for p in (2, 4, 8):
        path = tmp_path / f"app.p{p}.r1" / "profile.cubex"
        path.parent.mkdir()
        path.write_bytes(profile(1.5 * p, 0.25))
    (found,) = read_measurements(tmp_path)
    assert found.callpaths == ("main", "main->solve")
    assert found.values.ravel().tolist() == [3, 6, 12, 0.25, 0.25, 0.25]
    content, refusals = profile(3.0, 0.25), []
    for seed in range(30):
        # Behind the files there is nothing but zeros.
        at, to = sorted(random.Random(seed).sample(range(6000), 2))
        path.write_bytes(
            content[:at] + [b"", b"1e999", content[at:to] * 2][seed % 3] + content[to:]
        )
        try:
            read_measurements(tmp_path)
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 8
    assert not [text for text in refusals if "\n" in text or not text.startswith(str(tmp_path))]
