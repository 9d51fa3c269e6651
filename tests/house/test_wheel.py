"""The source archive and its wheel contain all files that the command needs, and no others."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "from setuptools.build_meta import build_{0} as b; import sys; print(b(sys.argv[1]))"
# What an installation without extras has not.
EXTRAS = (
    "matplotlib",
    "vl_convert",
    "otf2",
    "pycubexr",
    "caliperreader",
    "jax",
    "dask",
    "atheris",
    "hypothesis",
)
RUN = f"""
import sys
sys.modules |= dict.fromkeys({EXTRAS})
import toruscast
assert toruscast.__file__.startswith(sys.argv[1]), toruscast.__file__
from toruscast.cli import main
main(sys.argv[2:])
"""


def run(words, **how):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The files of the wheel; its dependencies are those of this environment."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no clone to make a source archive of")
    place = tmp_path_factory.mktemp("wheel")
    clone = place / "clone"
    for name in run(["git", "ls-files"], cwd=ROOT).splitlines():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
    run([sys.executable, "-c", BUILD.format("sdist"), str(place)], cwd=clone)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(place / "unpacked", filter="data")
    (unpacked,) = (place / "unpacked").iterdir()
    run([sys.executable, "-c", BUILD.format("wheel"), str(place)], cwd=unpacked)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(place / "site")
    return place / "site"


def toruscast(site, folder, *words):
    environment = os.environ | {"PYTHONPATH": str(site)}
    return run([sys.executable, "-c", RUN, str(site), *words], cwd=folder, env=environment)


def test_the_wheel_holds_the_package_alone_and_reads_a_shipped_dataset(site, tmp_path):
    tops = {path.name for path in site.iterdir()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"toruscast"}
    words = ("convert", "lammps-lj-64", "a.csv", "--quiet")
    toruscast(site, tmp_path, *words)
    assert (tmp_path / "a.csv").stat().st_size > 1000


@pytest.mark.slow
def test_the_wheel_ranks_a_shipped_dataset(site, tmp_path):
    words = ("--candidates", "4", "--no-simulation")
    told = toruscast(site, tmp_path, "rank", "--comm", "lammps-lj-64", "--torus", "4x4x4", *words)
    assert "lammps-lj-64" in told
