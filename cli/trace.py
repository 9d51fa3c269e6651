"""``toruscast trace``: run an MPI program, and record what it sends and in which order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import click

from toruscast.errors import InputError
from toruscast.formats.tracer import described, region_of

from .app import FAILED
from .options import argument, option, sub_command

TRACER = Path(__file__).parents[1] / "mapping" / "trace" / "tracer.c"


@dataclass(frozen=True)
class Traced:
    """What is started, and how it is recorded."""

    words: tuple[str, ...] = argument("-- LAUNCHER... PROGRAM...", nargs=-1)
    folder: str = option(
        "Where the trace goes: a file a rank, written while the program runs.",
        "FOLDER",
        "--out",
        default="trace",
        group="Output",
    )
    region: str = option(
        "What is read of it later: the iteration that repeats, all, what stands between "
        "MPI_Pcontrol(1) and MPI_Pcontrol(0) (marked), or seconds such as 2.5-4.",
        default="iteration",
    )
    mpicc: str = option(
        "The compiler of the MPI library that the program uses; it builds the recorder.",
        "COMPILER",
        default="mpicc",
        group="Machine",
    )


@sub_command("trace")
def command(run: Traced) -> int:
    """Run an MPI program as it is, and record its messages and their order.

    \b
    toruscast trace -- mpirun -np 64 ./app input
    toruscast rank --comm trace --torus 4x4x4

    The program is not changed: a small recorder is compiled once for the MPI library and loaded
    before the program. All commands read the folder as a graph with rounds. Exit status: that of
    the program; 1 if nothing was recorded.
    """  # noqa: D301
    words, folder, region, mpicc = run.words, run.folder, run.region, run.mpicc
    region_of(region)
    place = _empty_folder(folder)
    environment = _environment(place, _built(place, mpicc))
    (place / "trace.json").write_text(json.dumps({"region": region, "command": list(words)}))
    try:
        code = subprocess.run(words, env=environment, check=False).returncode
    except OSError as error:
        raise InputError(
            "program cannot be started", found=words[0], expected=error.strerror
        ) from None
    if not any(place.glob("rank-*.trace")):
        click.echo(
            f"toruscast: nothing was recorded: {words[0]} started no program that uses the MPI "
            f"library of {mpicc} (--mpicc names another compiler)",
            err=True,
        )
        return code or FAILED
    lines = described(place)
    click.echo(f"{folder}: " + "\n  ".join(lines))
    click.echo(f"Next: toruscast rank --comm {folder} --torus TORUS")
    return code if code >= 0 else 128 - code


def _empty_folder(folder: str) -> Path:
    place = Path(folder).absolute()
    if separators := set(str(place)) & set(" :;\t\n"):
        expected = f"--out with a path without {' or '.join(map(repr, sorted(separators)))}"
        raise InputError("path that ranks cannot be told", found=str(place), expected=expected)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        expected = "a new folder, or another name with --out"
        raise InputError("folder is not empty", found=folder, expected=expected)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("folder cannot be made", found=folder, expected=error.strerror) from None
    return place


def _built(place: Path, mpicc: str) -> Path:
    """The recorder, compiled for the MPI library of a compiler."""
    compiler = shutil.which(mpicc)
    if compiler is None:
        expected = "the MPI library's compiler, such as mpicc of a development package (--mpicc)"
        raise InputError("no MPI compiler", found=mpicc, expected=expected)
    library = place / "recorder.so"
    flags = ["-shared", "-fPIC", "-O2", "-std=gnu11", "-o", str(library), str(TRACER), "-ldl"]
    done = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [
            "no reason given"
        ]
        raise InputError(
            "the recorder cannot be built", found=lines[0], expected=f"{mpicc} of MPI 3"
        )
    return library


def _environment(place: Path, library: Path) -> dict[str, str]:
    """The environment of the launcher; Open MPI hands the two on to other nodes."""
    own = {
        "LD_PRELOAD": " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")])),
        "TORUSCAST_TRACE": str(place),
    }
    handed_on = ";".join(f"{name}={value}" for name, value in own.items())
    return os.environ | own | {"OMPI_MCA_mca_base_env_list": handed_on}
