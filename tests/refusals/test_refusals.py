"""Files that readers refuse: the kind of error, and the file and line that it names.

A table of the TOML files beside this one holds the readers and their options, and a row for each
file: ``text`` (repeated ``times``, then ``tail``), ``hex`` or ``npz``, or ``files`` of a folder;
``beside`` are other files that options name. ``packed`` cuts the gzip file there. ``{BIG}`` is a
number of 5,000 digits. ``line`` is the line of the fault (0 is any), and ``at`` the file in the
folder. ``why`` says what is wrong, and is not compared.
"""

import gzip
import io
import tomllib
from pathlib import Path

import numpy as np
import pytest

import toruscast as tc
from toruscast.errors import InputError
from toruscast.formats import read_hosts, read_times

pytestmark = pytest.mark.filterwarnings("ignore::toruscast.errors.InputWarning")
READERS = {
    "comm": tc.read_comm,
    "workload": tc.read_workload,
    "mapping": tc.read_mapping,
    "mappings": tc.read_mappings,
    "torus": tc.read_torus,
    "hosts": read_hosts,
    "times": read_times,
}


def rows():
    """Each reader with each row of its tables."""
    for file in sorted(Path(__file__).parent.glob("*.toml")):
        for table in tomllib.loads(file.read_text())["table"]:
            for row in table["rows"]:
                options = table.get("options", {}) | row.get("options", {})
                for reader in table["reader"]:
                    yield pytest.param(reader, options, row, id=f"{reader}-{row['why']}")


def write(path, text):
    data = text.replace("{BIG}", "9" * 5000).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def content_of(row):
    if "hex" in row:
        return bytes.fromhex(row["hex"])
    if "npz" in row:
        stream = io.BytesIO()
        np.savez(stream, **{name: np.array(values) for name, values in row["npz"].items()})
        return stream.getvalue()
    text = row["text"] * row.get("times", 1) + row.get("tail", "")
    data = text.replace("{BIG}", "9" * 5000).encode()
    return gzip.compress(data)[: row["packed"] or None] if "packed" in row else data


@pytest.mark.parametrize(("reader", "options", "row"), [*rows()])
def test_file_is_refused(tmp_path, reader, options, row):
    place = tmp_path / "app"
    if "files" in row:
        place.mkdir()
        for name, text in row["files"].items():
            write(place / name, text)
    else:
        place.write_bytes(content_of(row))
    for name, text in row.get("beside", {}).items():
        write(tmp_path / name, text)
    named = {key: tmp_path / options[key] for key in ("messages", "hosts") if key in options}
    options = options | named
    torus = [tc.torus(options.pop("torus"))] if "torus" in options else []
    with pytest.raises(InputError) as caught:
        READERS[reader](place, *torus, **options)
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 600 + len(str(place))
    assert row.get("line") in (0, caught.value.line)
    if "at" in row:
        assert caught.value.file == str(place / row["at"])
    elif caught.value.file is not None:
        assert caught.value.file.startswith(str(tmp_path))
