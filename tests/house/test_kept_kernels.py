"""Machine code that is cached between runs."""

import subprocess
import sys

import pytest

KERNEL = """
from toruscast._jit import kernel

@kernel
def double(box):
    return 2 * box.width
"""
BOX = """
from typing import NamedTuple

class Box(NamedTuple):
    width: float
"""

WHOLE = """
from part import thrice
from toruscast._jit import kernel

@kernel
def work(number):
    return thrice(number)
"""
PART = """
from toruscast._jit import bare_kernel

TIMES = {times}

@bare_kernel
def thrice(number):
    return TIMES * number
"""


def run(folder, code):
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return ended.stdout or ended.stderr


def test_a_kernel_is_made_anew_when_the_module_of_a_part_changes(tmp_path):
    (tmp_path / "whole.py").write_text(WHOLE)
    for times in (3, 5):
        (tmp_path / "part.py").write_text(PART.format(times=times))
        assert run(tmp_path, "import whole; print(whole.work(2))") == f"{2 * times}\n"


def test_code_kept_by_another_version_whose_types_have_moved_is_made_anew(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    for place in ("old", "new"):
        (tmp_path / f"{place}.py").write_text(BOX)
        code = f"import kernels, {place}; print(kernels.double({place}.Box(1.5)))"
        assert run(tmp_path, code) == "3.0\n"
        (tmp_path / f"{place}.py").unlink()
    assert list(tmp_path.glob("__pycache__/*.nbi"))


FULL = """
import errno, sys
from pathlib import Path
from numba.core import caching
from toruscast._jit import kernel

def refuse(*_):
    raise OSError(errno.{code}, errno.errorcode[errno.{code}])

caching.{what} = refuse

@kernel
def double(number):
    return 2 * number

@kernel
def triple(number):
    return 3 * number
"""


FILE = "IndexDataCacheFile"


@pytest.mark.parametrize(
    ("what", "code", "told"),
    [
        (f"{FILE}._save_index", "ENOSPC", "__pycache__: ENOSPC; compiled kernels"),
        (f"{FILE}._save_data", "EROFS", "__pycache__: EROFS; compiled kernels"),
        (f"{FILE}._load_index", "EACCES", ""),
        ("_CacheLocator.ensure_cache_path", "EROFS", ": cannot be written; compiled kernels"),
    ],
)
def test_kernels_that_cannot_be_kept_work_and_name_the_folder_once(tmp_path, what, code, told):
    (tmp_path / "full.py").write_text(FULL.format(what=what, code=code))
    words = [sys.executable, "-c", "import full; print(full.double(2.0), full.triple(2))"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout == "4.0 6\n"
    assert ended.stderr.count("compiled kernels") == bool(told)
    assert told in ended.stderr
    assert not told or str(tmp_path) in ended.stderr
