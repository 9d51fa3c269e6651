"""Files of other tools: what they mean is read, and a damaged one is refused in one line."""

import io
import json
import random
import struct
import warnings
import zipfile

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.scaling import ScalingWarning, read_jobs, read_measurements

NESTED = "PARAMETER x\nPARAMETER y\nPOINTS ((1) (2)) ((3) (4))\nREGION main\nDATA 5 6\nDATA 7\n"
TALPAS = "".join(
    f'{{"parameters":{{"x":{x}}};"metric":"time";"callpath":"a;b";"value":{x}.5}}\n'
    for x in (2, 4, 2)
)
LINES = "".join(f'{{"params": {{"p": {p}}}, "value": [{p}, 1]}}\n' for p in (2, 4, 8))
WIDE = "nprocs,rep1,rep2\n8,15.5,15.25\n16,7.5,\n"
JOBS = "job,interconnect,latency,bandwidth,messages,message_bytes,elapsed\n" + "".join(
    f"{job},{net},{latency},{bandwidth},1e6,2000,{elapsed}\n"
    for job, elapsed in (("a", 600), ("b", 500))
    for net, latency, bandwidth in (("eth", 4e-5, 1.1e8), ("ib", 2e-6, 3e9))
)


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
    def read(content, **how):
        path = tmp_path / "data"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_measurements(path, **how)[0]

    return read


def test_nested_brackets(read):
    found = read(NESTED)
    assert found.points.tolist() == [[1, 2], [3, 4]]
    assert found.values[0, 0].tolist() == [5, 6]


def test_talpas(read):
    found = read(TALPAS)
    assert (found.parameters, found.callpaths) == (("x",), ("a;b",))
    np.testing.assert_equal(found.values, [[[2.5, 2.5], [4.5, np.nan]]])


def test_lines_with_lists(read):
    assert read(LINES).values.tolist() == [[[2, 1], [4, 1], [8, 1]]]


def test_repetitions_as_columns(read):
    for value in ("rep*", ["rep1", "rep2"]):
        found = read(WIDE, value=value)
        assert found.parameters == ("nprocs",)
        np.testing.assert_equal(found.values, [[[15.5, 15.25], [7.5, np.nan]]])
    assert read("p,seconds\n2,1\n", value="seconds").metrics == ("seconds",)
    with pytest.raises(InputError, match=r"data:1: .*--value 'rep\*'"):
        read(WIDE)
    with pytest.raises(InputError, match="data:1: no column time: found nprocs"):
        read(WIDE, value="time")


def test_a_project_with_its_repetitions(read):
    assert read(project()).values.tolist() == [[[2, 3], [4, 5]]]


def test_a_project_without_repetitions(read):
    with pytest.warns(ScalingWarning, match="medians of its repetitions only"):
        found = read(project(values=False))
    assert found.values.tolist() == [[[2.5], [4.5]]]


def test_a_project_that_unpacks_to_too_much(read):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("experiment.json", b" " * (65 * 2**20))
    with pytest.raises(InputError, match="unpacks to too much"):
        read(packed.getvalue())


def test_folders_of_cube_profiles_are_checked(tmp_path):
    with pytest.raises(InputError, match="without Cube profiles"):
        read_measurements(tmp_path)
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "profile.cubex").write_bytes(b"x")
    with pytest.raises(InputError, match="tells no parameters"):
        read_measurements(tmp_path)
    (tmp_path / "profile").rename(tmp_path / "app.p64.n1,5.r1")
    with pytest.raises(InputError, match=r"is no Cube profile|need the package pycubexr"):
        read_measurements(tmp_path)


def damaged(content, seed):
    """Return a file cut, swapped, in another encoding, or with a huge number."""
    rng = random.Random(seed)
    at, to = sorted(rng.sample(range(len(content)), 2))
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


@pytest.mark.parametrize("kind", ["nested", "talpas", "lines", "wide", "project", "jobs"])
def test_damaged_files_are_refused_in_one_line(tmp_path, kind):
    texts = {"nested": NESTED, "talpas": TALPAS, "lines": LINES, "wide": WIDE, "jobs": JOBS}
    content = project() if kind == "project" else texts[kind].encode()
    path = tmp_path / "data"
    refusals = []
    for seed in range(200):
        path.write_bytes(damaged(content, seed))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ScalingWarning)
                if kind == "jobs":
                    read_jobs(path)
                else:
                    read_measurements(path, "rep*" if kind == "wide" else ())
        except InputError as error:
            refusals.append(str(error))
    assert refusals
    assert not [text for text in refusals if "\n" in text or not text.startswith(str(path))]


@pytest.mark.parametrize(("unit", "factor"), [("GB/s", 1e-9), ("MB/s", 1e-6), ("Gbit/s", 8e-9)])
def test_units_of_bandwidth_are_asked_for(tmp_path, unit, factor):
    path = tmp_path / "jobs.csv"
    path.write_text(
        JOBS.replace("110000000.0", repr(1.1e8 * factor)).replace(
            "3000000000.0", repr(3e9 * factor)
        )
    )
    with pytest.raises(InputError, match=r"jobs.csv:2: this bandwidth looks like another unit"):
        read_jobs(path)
    found = read_jobs(path, {"bandwidth": unit})
    assert found["bandwidth"].tolist() == pytest.approx([1.1e8, 3e9] * 2)


def test_units_of_latency_are_asked_for(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS.replace("4e-05", "40").replace("2e-06", "2"))
    with pytest.raises(InputError, match=r"jobs.csv:2: this latency .*--latency-unit: found 40"):
        read_jobs(path)
    assert read_jobs(path, {"latency": "us"})["latency"].tolist() == pytest.approx([4e-5, 2e-6] * 2)
