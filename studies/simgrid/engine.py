"""SimGrid, through a small program that is compiled when it is needed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

import toruscast as tc
from toruscast import InputError

SOURCE = Path(__file__).with_name("flows.cpp")
NEEDED = "g++ and SimGrid (on Debian: apt install g++ libsimgrid-dev)"
PLAIN = ("network/model:CM02", "network/crosstraffic:0")
"""Links shared by connections, and nothing besides."""
CROSSED = ("network/model:CM02", "network/crosstraffic:1")
"""The same with acknowledgements, which take a part of the links of the way back."""
AS_IT_COMES = ()
"""SimGrid's default model LV08, with the factors of TCP over Ethernet, and cross-traffic."""
# Of the time that a usual message takes; finer, SimGrid takes many times as long.
_PRECISION = 0.04


def missing() -> str | None:
    """Return what this machine lacks for SimGrid; None if nothing."""
    compiler = shutil.which("g++")
    if compiler is None:
        return NEEDED
    asked = subprocess.run(
        [compiler, "-E", "-x", "c++", "-", "-o", "-"],
        input=b"#include <simgrid/s4u.hpp>\n",
        capture_output=True,
        check=False,
    )
    return NEEDED if asked.returncode else None


@dataclass(frozen=True)
class Engine:
    """The compiled program and the platform of a torus."""

    program: Path
    platform: Path
    torus: tc.Torus

    @staticmethod
    def from_torus(torus: tc.Torus, folder: Path | None) -> Engine:
        """Compile the program into a folder, unless it is there, and write the platform.

        Raises
        ------
        InputError
            If SimGrid or the compiler is missing, or no folder was given.
        """
        if folder is None:
            raise InputError("SimGrid's program needs a folder to lie in")
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "flows"
        if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
            if lacking := missing():
                raise InputError("SimGrid is not installed", expected=lacking)
            command = ["g++", "-O2", "-std=c++17", SOURCE, "-o", program, "-lsimgrid"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                found = done.stderr.strip().splitlines()[:1]
                raise InputError("SimGrid's program does not compile", found=found, expected=NEEDED)
        platform = folder / f"{'x'.join(map(str, torus.shape))}.xml"
        tc.write_torus(torus, platform, "simgrid")
        return Engine(program, platform, torus)

    def times(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        nbytes: ArrayLike,
        config: Sequence[str] = PLAIN,
    ) -> NDArray[np.float64]:
        """Return when each message between two of our nodes has arrived, seconds.

        Raises
        ------
        InputError
            If SimGrid fails.
        """
        # SimGrid counts hosts with the first coordinate fastest.
        stride = np.cumprod([1, *self.torus.shape[:-1]])
        host = self.torus.coords @ stride
        size = np.asarray(nbytes, dtype=np.float64)
        precision = _PRECISION * float(size.mean()) / self.torus.bandwidth[0]
        lines = [
            f"{here} {there} {float(amount)!r}\n"
            for here, there, amount in zip(
                host[np.asarray(src)], host[np.asarray(dst)], size, strict=True
            )
        ]
        options = [f"--cfg={word}" for word in (*config, f"surf/precision:{precision!r}")]
        done = subprocess.run(
            [self.program, self.platform, "--log=root.thres:error", *options],
            input="".join(lines),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            found = " ".join(done.stderr.split())[:200]
            raise InputError("SimGrid failed", found=found or f"status {done.returncode}")
        return np.array(done.stdout.split(), dtype=np.float64)

    def time(self, comm: tc.CommGraph, mapping: tc.TaskMapping) -> float:
        """Return when all messages of a graph have arrived, seconds."""
        src, dst = mapping.node[comm.src], mapping.node[comm.dst]
        away = src != dst
        return float(self.times(src[away], dst[away], comm.nbytes[away]).max(initial=0.0))
