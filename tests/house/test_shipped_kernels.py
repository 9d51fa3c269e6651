"""Kernels in a wheel are used on matching systems and ignored on others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_process_triple

import toruscast
from toruscast import _jit

PACKAGE = Path(toruscast.__file__).parent
USED = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
from toruscast import _jit
from toruscast.room import part
CHANGE
print(part.double(2.5))
"""
KERNEL = """
from toruscast._jit import kernel

@kernel
def double(number):
    return 2 * number
"""
pytestmark = pytest.mark.skipif(
    get_process_triple() != _jit._SHIPPED_TARGET[0], reason="kernels are built for Linux on x86-64"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A package with one kernel, and what a wheel would bring for it."""
    place = tmp_path_factory.mktemp("built")
    there = place / "toruscast"
    (there / "room").mkdir(parents=True)
    (there / "routing").mkdir()
    for name in ("__init__.py", "room/__init__.py"):
        (there / name).touch()
    for name in ("_jit.py", "_llvm.py", "errors.py", "text.py"):
        shutil.copy(PACKAGE / name, there)
    (there / "room" / "part.py").write_text(KERNEL)
    target = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    assert "compiling" in run(there, place / "kept", "", **target)
    (kept,) = (place / "kept").iterdir()
    shutil.copytree(kept, there / "_kernels" / _jit._VERSIONS / "room")
    return there


@pytest.fixture
def package(built, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(built, tmp_path / "site" / "toruscast"))


def run(package, kept, change, **settings):
    """Return what a program says that calls the kernel."""
    settings = {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(kept), **settings}
    ended = subprocess.run(
        [sys.executable, "-c", USED.replace("CHANGE", change)],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.endswith("5.0\n"), ended.stderr
    return ended.stdout


def test_a_kernel_of_a_wheel_is_used_wherever_the_package_lies(package, tmp_path):
    moved = tmp_path / "elsewhere" / "toruscast"
    shutil.move(package, moved)
    os.utime(moved / "room" / "part.py", (0, 0))
    assert run(moved, tmp_path / "kept", "") == "5.0\n"
    assert not list((tmp_path / "kept").rglob("*.nbi"))


@pytest.mark.parametrize(
    "change",
    [
        "_jit.get_host_cpu_features = lambda: {'avx2': False}",
        "_jit.get_process_triple = lambda: 'aarch64-unknown-linux-gnu'",
        "part.double._cache._shipped._version = '0.1'",
    ],
    ids=["without AVX2", "another platform", "another numba"],
)
def test_a_kernel_that_does_not_fit_is_compiled(package, tmp_path, change):
    assert "compiling" in run(package, tmp_path / "kept", change)


def test_a_kernel_of_other_sources_is_compiled(package, tmp_path):
    (package / "routing" / "routes.py").write_text("MORE = 1\n")
    assert "compiling" in run(package, tmp_path / "kept", "")
