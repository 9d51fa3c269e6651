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


def test_code_kept_by_another_version_whose_types_have_moved_is_made_anew(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    for place in ("old", "new"):
        (tmp_path / f"{place}.py").write_text(BOX)
        code = f"import kernels, {place}; print(kernels.double({place}.Box(1.5)))"
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.stdout == "3.0\n", ended.stderr
        (tmp_path / f"{place}.py").unlink()
    assert list(tmp_path.glob("__pycache__/*.nbi"))
