"""Damaged files of each dialect are read, or refused with a one-line error."""

import re
import warnings

import numpy as np
import pytest
from format_examples import example_bytes

from toruscast.errors import InputError
from toruscast.formats import read_comm, read_hosts, read_mappings, read_times, read_torus
from toruscast.formats.registry import dialects
from toruscast.mapping import Hosts, Torus

SQUARE = Torus((2, 2))
NAMES = ("c00", "c01", "c02", "c03", "nodes021", "nodes022", "nodes019", "nodes024")
HOSTS = Hosts(NAMES, [0, 1, 2, 3] * 2, SQUARE)
HUGE = (b"9" * 400, b"-1", b"1e999", b"4000000000", b"nan", b"99999999999999999999", b"0.5", b"\0")
READERS = {
    "graph": read_comm,
    "mapping": lambda path: read_mappings(path, SQUARE, hosts=HOSTS),
    "torus": read_torus,
    "hosts": lambda path: read_hosts(path, SQUARE),
    "times": read_times,
}
KNOWN = [d for d in dialects() if d.read and d.holds in READERS and example_bytes(d)]


def damaged(data, rng):
    """One to three changes: cut, swapped, recoded, a huge number, or lost or new bytes."""
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(data) + 1))
        match rng.integers(0, 7):
            case 0:
                data = data[:at]
            case 1:
                lines = data.splitlines(keepends=True)
                rng.shuffle(lines)
                data = b"".join(lines)
            case 2:
                data = data[:at] + bytes(rng.integers(0, 256, 3, dtype=np.uint8)) + data[at:]
            case 3:
                numbers = list(re.finditer(rb"\d+", data))
                if numbers:
                    m = numbers[rng.integers(len(numbers))]
                    data = data[: m.start()] + HUGE[rng.integers(len(HUGE))] + data[m.end() :]
            case 4:
                data = data[:at] + data[at + int(rng.integers(1, 9)) :]
            case 5:
                data = data.decode("latin-1").encode("utf-16" if rng.integers(2) else "utf-8")
            case _:
                data = data.replace(b"\n", b"\r\n" if rng.integers(2) else b"\n\n")
    return data


def said_by(read, path):
    """The words of the error, if there is one."""
    try:
        read(path)
    except InputError as error:
        return str(error)
    return ""


def check(folder, dialect, n, seed):
    """All of n damaged files are read, or refused in one line that names the file."""
    rng = np.random.default_rng(seed)
    path = folder / "damaged"
    read, whole = READERS[dialect.holds], example_bytes(dialect)
    refused = 0
    for _ in range(n):
        path.write_bytes(damaged(whole, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            words = said_by(read, path)
        refused += bool(words)
        assert re.fullmatch(f"({re.escape(str(path))}:[^\n\r]{{1,900}})?", words), words
    assert refused > n // 5


@pytest.mark.parametrize("dialect", KNOWN, ids=lambda d: f"{d.holds}-{d.name}")
def test_damage_gives_one_line(tmp_path, dialect):
    check(tmp_path, dialect, 25, 7)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", KNOWN, ids=lambda d: f"{d.holds}-{d.name}")
def test_much_damage_gives_one_line(tmp_path, dialect):
    check(tmp_path, dialect, 200, 8)
