"""Machine code that is kept between runs."""

import subprocess
import sys

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
