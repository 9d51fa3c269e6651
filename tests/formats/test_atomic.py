import gzip
import os
import signal

import pytest

from toruscast.errors import InputError
from toruscast.files import atomic_path, folder_beside


def test_file_appears_only_when_the_block_ends(tmp_path):
    target = tmp_path / "a.csv"
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".csv"
        assert not target.exists()
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def write_half(target):
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("before", [None, "old"])
def test_failure_leaves_what_was_there(tmp_path, before):
    target = tmp_path / "a.txt"
    if before:
        target.write_text(before)
    with pytest.raises(KeyboardInterrupt):
        write_half(target)
    assert [path.name for path in tmp_path.iterdir()] == (["a.txt"] if before else [])
    assert not before or target.read_text() == before


def test_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    with atomic_path(tmp_path / "atomic") as temporary:
        temporary.write_text("a")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_symbolic_link_stays(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("real.txt")
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


@pytest.mark.parametrize("name", ["", "missing/a.txt", "file/a.txt", "nul\0.txt", "x" * 300])
def test_place_that_cannot_be_written(tmp_path, name):
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"cannot be written|bad file name"),
        atomic_path(tmp_path / name),
    ):
        raise AssertionError("the block must not run")


def test_devices_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    names = (os.devnull, "/dev/stdout", "/dev/full", "/proc/self/fd/1")
    for name in (*names, tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(InputError, match="found a device or a pipe"), atomic_path(name):
            raise AssertionError("the block must not run")


@pytest.mark.parametrize("before", [None, "old"])
def test_a_block_that_wrote_nothing_is_refused(tmp_path, before):
    target = tmp_path / "a.bin"
    if before:
        target.write_text(before)
    with pytest.raises(OSError, match="nothing was written"), atomic_path(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == (["a.bin"] if before else [])
    assert not before or target.read_text() == before


def test_a_name_of_a_packed_file_is_packed(tmp_path):
    target = tmp_path / "a.csv.gz"
    with atomic_path(target) as temporary:
        temporary.write_text("a,b\n")
    assert gzip.decompress(target.read_bytes()) == b"a,b\n"
    packed = gzip.compress(b"c,d\n")
    with atomic_path(target) as temporary:
        temporary.write_bytes(packed)
    assert target.read_bytes() == packed
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv.gz"]


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet", ".zip", ".xz", ".bz2", ".PNG"])
def test_text_under_the_suffix_of_other_content_is_refused(tmp_path, suffix):
    target = tmp_path / f"a{suffix}"
    with pytest.raises(InputError, match=f"found {suffix}"), atomic_path(target) as temporary:
        temporary.write_text("a,b\n")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    child = os.fork()
    if not child:
        with atomic_path(target) as temporary, folder_beside(tmp_path / "out", tmp_path) as stage:
            temporary.write_text("much that is half written")
            (stage / "links.csv").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert target.read_text() == "old"
    with atomic_path(target) as temporary, folder_beside(tmp_path / "out", tmp_path) as stage:
        assert not list(stage.iterdir())
        temporary.write_text("whole")
        stage.rename(tmp_path / "out")
    assert target.read_text() == "whole"
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["a.txt", "out"]


def test_two_that_write_one_file_do_not_meet(tmp_path):
    target = tmp_path / "a.txt"
    with atomic_path(target) as first, atomic_path(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
