"""The simulator's kernels are compiled once on a machine, beside the reading and the routing.

Threads would wait for each other, because the compiler has one lock: so it is a process of its own,
and both share the folder where compiled kernels are kept.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from .output import Output

if TYPE_CHECKING:
    from toruscast.mapping import Torus
    from toruscast.typing import Routing

_LONGEST = 300.0
# New objects after which garbage is looked for, 700 usually.
_OBJECTS = 100_000


class Compiling:
    """Kernels that another process may be compiling, until the command ends."""

    def __init__(self, torus: Torus, routing: Routing, output: Output) -> None:
        from toruscast._jit import is_compiled
        from toruscast.simulation._setup import is_special
        from toruscast.simulation.kernels.loop import run

        self.process: subprocess.Popen[bytes] | None = None
        stats = getattr(run, "stats", None)
        # Without a folder to keep them in, every process compiles for itself.
        if stats is None or stats.cache_path is None:
            return
        # That network alone is simulated by what the process compiles.
        if routing != "deterministic" or is_special(torus.network, looked_at=False):
            return
        if is_compiled(run):
            return
        # The compiler makes very many objects that stay: to look for garbage took 7 % of the time.
        gc.set_threshold(_OBJECTS)
        output.message("kernels are being compiled, once on this machine: up to half a minute")
        # Without it this process compiles what it needs when it needs it. `-P` keeps modules of the
        # working directory out.
        with suppress(OSError):
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            click.get_current_context().call_on_close(self.stop)

    def wait(self) -> None:
        """Wait until the kernels are there."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_LONGEST)
            self.stop()

    def stop(self) -> None:
        """End the other process if it still runs: nobody needs what it does."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None


def compile_simulator() -> None:
    """Send one message, which compiles all that a simulation of the usual network needs."""
    from toruscast.mapping import CommGraph, TaskMapping, Torus
    from toruscast.simulation import simulate

    torus = Torus((4,))
    simulate(CommGraph(2, [0], [1], [512.0]), torus, TaskMapping([0, 1], torus))


if __name__ == "__main__":
    gc.disable()
    compile_simulator()
