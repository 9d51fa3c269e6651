"""Make a wheel with compiled kernels, and test it in new read-only environments.

    make wheel
    make wheel PYTHONS="python3.12 python3.13"

Each installed Python compiles the kernels with each version of numba in ``--numba``, for x86-64-v3
processors (since about 2013). Other versions and processors compile the kernels on first use.
"""

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

ROOT = Path(__file__).parents[1]
# Commands that compile the kernels that most users need.
WORK = (
    "rank --comm lammps-lj-64 --torus 4x4x4",
    "rank --comm lammps-lj-64 --torus bluegene_q:64 --network unknown",
    "rank --comm lammps-lj-64 --torus tpu_v4:4x4x4 --routing adaptive",
    "rank --collective allreduce/ring:1MB --torus 4x4",
    "search --comm lammps-lj-64 --torus 4x4x4 --seconds 2",
    "search --comm lammps-lj-64 --torus 4x4x4 --seconds 2 --objective max_bytes",
    "explain --comm lammps-lj-64 --torus 4x4x4 --mapping identity",
    "features --comm lammps-lj-64 --torus 4x4x4 --level 2 --candidates 4",
    "mesh --torus tpu_v5e:4x4 --axes x=4,y=4 --traffic x:allreduce:1MB,y:alltoall:1MB",
    "mesh --torus tpu_v4:4x4x8 --axes x=4,y=32 --traffic x:allreduce:1MB,y:allgather:1MB",
)
# The first commands that run in a new environment.
TRIED = (
    "rank --comm lammps-lj-512 --torus 8x8x8",
    "mesh --torus tpu_v6e:16x16 --axes data=64,tensor=4 "
    "--traffic tensor:exchange:4MB,data:exchange:4MB",
    "search --comm lammps-droplet-128 --torus 4x4x8 --seconds 2",
)
COMPILE = """
import sys
from pathlib import Path
import shutil
import toruscast
from numba.core.caching import _CacheLocator
from toruscast import _jit
package, kept, out = Path(toruscast.__file__).parent, Path(sys.argv[1]), Path(sys.argv[2])
for folder in package.rglob("*/"):
    found = kept / _CacheLocator.get_suitable_cache_subpath(str(folder / "module.py"))
    if found.is_dir():
        room = out / _jit._VERSIONS / folder.relative_to(package)
        shutil.copytree(found, room, dirs_exist_ok=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", default="python3.11 python3.12 python3.13 python3.14")
    parser.add_argument(
        "--numba",
        default="",
        help="versions; the default is the pinned one and the minor version before",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--here", action="store_true", help="only compile for this environment")
    options = parser.parse_args()
    if options.here:
        run_commands(Path(sys.executable).parent, os.environ)
        return 0
    pythons = [each for each in options.pythons.split() if is_here(each)]
    if not pythons:
        parser.error(f"none of these is here: {options.pythons}")
    with TemporaryDirectory() as place:
        folder = Path(place)
        source = folder / "source"
        unwanted = shutil.ignore_patterns(".venv", ".git", "__pycache__", "build", "dist")
        shutil.copytree(ROOT, source, symlinks=True, ignore=unwanted)
        plain = make_wheel(source, folder / "plain")
        kernels = source / "src" / "toruscast" / "_kernels"
        versions = options.numba.split() or numba_versions()
        pairs = [(python, version) for python in pythons for version in versions]
        compiled = [pair for pair in pairs if compile_kernels(*pair, plain, kernels, folder)]
        wheel = make_wheel(source, options.out)
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for python, version in compiled:
            try_wheel(python, version, wheel, folder)
    return 0


def is_here(python: str) -> bool:
    """Return whether a Python interpreter starts."""
    try:
        return run([python, "-c", ""], check=False).returncode == 0
    except OSError:
        return False


def numba_versions() -> list[str]:
    """Return the pinned version of numba, and the newest release of the previous minor version."""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    (pinned,) = (pin.partition("==")[2] for pin in pins if pin.startswith("numba=="))
    major, minor, _ = pinned.split(".")
    return [pinned, f"{major}.{int(minor) - 1}.*"]


def make_wheel(source: Path, out: Path) -> Path:
    """Build a wheel from a copy of the sources."""
    shutil.rmtree(source / "build", ignore_errors=True)
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir",
         out, source])  # fmt: skip
    return max(out.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def environment(python: str, wheel: Path, numba: str, place: Path) -> Path:
    """Create an environment with a wheel; return its folder of programs."""
    run([python, "-m", "venv", "--clear", place])
    pip = [place / "bin" / "pip", "install", "--quiet"]
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines()
            if not line.startswith(("numba==", "llvmlite=="))]  # fmt: skip
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(pins))
    run([*pip, "--constraint", constraints, wheel, f"numba=={numba}"])
    return place / "bin"


def compile_kernels(python: str, numba: str, wheel: Path, out: Path, folder: Path) -> bool:
    """Compile the kernels to ``out``; return False if this Python and numba cannot be installed."""
    try:
        programs = environment(python, wheel, numba, folder / "compiler")
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1]
        print(f"{python}, numba {numba}: not compiled: {reason}", flush=True)
        return False
    kept = folder / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    target = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(kept)}
    run_commands(programs, os.environ | target)
    run([programs / "python", "-c", COMPILE, kept, out], cwd=folder)
    print(f"{python}, numba {numba}: {len(list(kept.rglob('*.nbc')))} kernels", flush=True)
    return True


def run_commands(programs: Path, environment: Mapping[str, str]) -> None:
    """Run the commands whose kernels most users need, which compiles them."""
    for words in WORK:
        run([programs / "toruscast", *shlex.split(words)], env=environment)


def try_wheel(python: str, numba: str, wheel: Path, folder: Path) -> None:
    """Install the wheel in a new read-only environment, and time the first calls."""
    place = Path(mkdtemp(dir=folder))
    programs = environment(python, wheel, numba, place / "environment")
    home = place / "home"
    home.mkdir()
    for path in (place / "environment", *(place / "environment").rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    # The superuser can write anywhere with this capability.
    limits = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    settings = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}
    for words in TRIED:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run([*limits, programs / "toruscast", *shlex.split(words)], env=settings, cwd=home)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"{python}, numba {numba}: {seconds:.1f} s of processor time: toruscast {words}",
            flush=True,
        )
        if "compiling" in done.stderr:
            raise SystemExit(f"tools/wheel.py: compiled in spite of its kernels: {words}")


def run(words, **how):
    """Run a program; if it fails, print its output and raise the error."""
    how = {"check": True, "capture_output": True, "text": True} | how
    try:
        return subprocess.run(list(map(str, words)), **how)
    except subprocess.CalledProcessError as error:
        if words[0] != sys.executable and "pip" not in str(words[0]):
            print(error.stdout, error.stderr, file=sys.stderr)
        raise


if __name__ == "__main__":
    sys.exit(main())
