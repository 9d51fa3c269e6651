"""Real programs traced, ranked, searched, launched and timed on a torus made on this machine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast import InputError

from ..study import Findings, Inputs, Target
from .network import MPICC, MPIRUN, EmulatedTorus, compile_c, in_order
from .recorded import AVERAGED, IDENTITY, TIMES, TORUS, Program, read, score

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guide" / "faster-launch.md"
COMMAND = "from toruscast.cli import main; main()"
INPUTS = HERE.parents[1] / "datasets" / "capture"
SEED = 49
SEARCH_SECONDS = 8.0
LONGEST = 120
# The size of the matrix, of its blocks and of the grid of ranks; no check of the result.
LU = "LU\nLU\nLU.out\n6\n1\n{n}\n{n}\n1\n32\n1\n1\n1\n1\n1\n{rows}\n{columns}\n-1.0\nF\n"
SECONDS = re.compile(r"^(?:seconds|Loop time of|WALL(?: +\d+){7}) +([0-9.]+)", re.MULTILINE)
SEARCHED, RANKED = "searched", "ranked"
WORDS = {
    "lj": "lmp -in in.lj -var cells 8 -var steps 25 -log none",
    "salt": "lmp -in in.salt -var cells 4 -var steps 10 -log none",
    "lu": "xdlu",
    "halo": "kinds halo 16000 30",
    "transpose": "kinds transpose 40000 14",
    "wavefront": "kinds wavefront 16000 5",
    "graph": "kinds graph 40000 14",
    "allreduce": "kinds allreduce 160000 4",
    "ring": "kinds ring 400000 3",
    "doubling": "kinds doubling 60000 8",
}


@dataclass(frozen=True)
class Setup:
    """A torus, and what is measured on it."""

    shape: tuple[int, ...]
    programs: tuple[str, ...] = tuple(WORDS)
    n_mappings: int = 10
    repeats: int = 2
    tasks_per_node: int = 1
    slow: bool = False
    """Whether one link has a fifth of the bandwidth of the others."""

    @property
    def torus(self) -> tc.Torus:
        """The torus as toruscast knows it."""
        found = tc.Torus(
            self.shape,
            bandwidth=TORUS.bandwidth[:1] * len(self.shape),
            tie_break=TORUS.tie_break,
            network=TORUS.network,
        )
        link = found.link(0, len(self.shape) - 1, 1)
        return found.with_links({link: found.bandwidth[-1] / 5}) if self.slow else found


SETUPS = {
    "short": Setup((4, 4), ("lj", "halo"), n_mappings=6),
    "4x4": Setup((4, 4)),
    "2x2x4": Setup((2, 2, 4)),
    "8x2": Setup((8, 2)),
    "4x4x2": Setup((4, 4, 2)),
    "slow-link": Setup((4, 4), slow=True),
    "two-a-node": Setup((4, 2), tasks_per_node=2),
}


def run(inputs: Inputs) -> Findings:
    """Measure the chosen setups, and say how well the mappings were ordered and what was gained.

    Raises
    ------
    InputError
        If a program fails or prints no time.
    """
    assert inputs.work is not None
    shutil.rmtree(inputs.work / "real-mpi", ignore_errors=True)
    notes = []
    for name in inputs.live:
        notes += measure(name, SETUPS[name], inputs.work)
    load = pd.concat(map(pd.read_csv, Inputs(data=inputs.work).files(TIMES)))["load"]
    programs = list(read(Inputs(data=inputs.work)))
    found = score(programs, inputs.n_jobs)
    table = pd.DataFrame([_gains(each) for each in programs])
    table["excess of the named one"] = found.tables["named"][AVERAGED]
    order = {name: shown for name, shown in found.shown.items() if name.startswith("RCC")}
    return Findings(
        f"Meanwhile the load of the machine with {os.cpu_count()} cores was {load.min():.0f} to "
        f"{load.max():.0f}, partly from other work. {' '.join(notes)}\n\n"
        f"{found.text}",
        {**found.tables, "gains": table},
        {"Gain over the default order, measured": table, **order},
        (
            *found.targets,
            Target(
                "time under the searched mapping over that of the default order, the largest",
                float(1 - table[SEARCHED].min()),
                1.03,
                "at most",
            ),
        ),
        found.charts,
    )


def _gains(program: Program) -> dict[str, object]:
    """Share of the default order's time that the mappings save."""
    first = program.time(IDENTITY)
    return {
        "program": program.name,
        "default order, s": first,
        SEARCHED: 1 - program.time(SEARCHED) / first,
        "fastest forecast but the default": 1 - program.time(RANKED) / first,
        "best measured": 1 - program.times.min() / first,
    }


def measure(name: str, setup: Setup, work: Path) -> list[str]:
    """Measure the programs of a setup into ``work/real-mpi``; return what is worth a note.

    Each program has a folder there: its trace, the machine file of the torus, mappings, hostfiles
    and rankfiles, and times.csv.
    """
    notes = []
    with EmulatedTorus(setup.torus, work / f"{name}-network") as network:
        binary = network.folder / "kinds"
        compile_c(HERE / "kinds.c", binary)
        runs: list[tuple[Path, Callable[[str], float], str]] = []
        for program in setup.programs:
            words = command_of(program, binary)
            if words is None:
                notes.append(f"{program} is not installed here and was left out.")
                continue
            folder = work / "real-mpi" / (program if name == "short" else f"{program}@{name}")
            prepare(folder, setup)
            started = _Launch(network, setup, words, folder)
            started.trace()
            mappings = started.candidates()
            if not runs:
                wrong = started.wrong_places(mappings[-1].name)
                notes.append(
                    f"On {name}, {wrong} ranks of {len(mappings[0].node)} were on other nodes "
                    "than in the hostfile and the rankfile of a mapping."
                )
            if program == "halo":
                notes.append(started.walk_through())
            runs += [(folder, started.seconds, each.name) for each in mappings] * setup.repeats
        for at in np.random.default_rng(SEED).permutation(len(runs)):
            folder, seconds, mapping = runs[at]
            with (folder / "times.csv").open("a") as file:
                file.write(f"{mapping},{seconds(mapping):.6f},{os.getloadavg()[0]:.1f}\n")
    return notes


@dataclass(frozen=True)
class _Launch:
    """A program in its folder, started under mappings of it."""

    network: EmulatedTorus
    setup: Setup
    words: list[str]
    folder: Path

    @property
    def n_tasks(self) -> int:
        return self.network.torus.n_nodes * self.setup.tasks_per_node

    def trace(self) -> None:
        """Trace it in the default order."""
        torus, share = self.network.torus, self.setup.tasks_per_node
        order = tc.TaskMapping(np.arange(self.n_tasks) // share, torus, tasks_per_node=share)
        self._write(order, "default")
        command = self.network.words(self.words, self._placing("default"), LONGEST, self.folder)
        ours = [sys.executable, "-c", COMMAND, "trace", "--out", str(self.folder / "trace")]
        ours += ["--mpicc", MPICC, "--", *command]
        environment = self.network.environment()
        environment["LD_PRELOAD"] = str(self.network.sleeper)
        done = subprocess.run(ours, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError("tracing failed", file=self.folder, found=done.stderr[-300:])

    def candidates(self) -> list[tc.TaskMapping]:
        """Rank and search from the trace; write and return the mappings to measure."""
        torus, n = self.network.torus, self.setup.n_mappings
        workload = tc.read_workload(self.folder / "trace")
        several = tc.strategies.sample(workload, torus, n=2 * n, seed=SEED)
        table = tc.rank(workload, torus, several).table
        by_name = {each.name: each for each in several}
        found = tc.search(workload, torus, seconds=SEARCH_SECONDS, seed=SEED).best
        # The fastest forecast, and others from the fastest to the slowest.
        names = [name for name in table["mapping"] if name != IDENTITY]
        spread = np.linspace(0, len(names) - 1, n - 2).round().astype(int)
        chosen = {IDENTITY: by_name[IDENTITY], SEARCHED: found, RANKED: by_name[names[0]]}
        chosen |= {names[i]: by_name[names[i]] for i in spread[1:]}
        mappings = [
            tc.TaskMapping(
                each.node, torus, slot=each.slot, tasks_per_node=each.tasks_per_node, name=name
            )
            for name, each in chosen.items()
        ]
        for mapping in mappings:
            self._write(mapping, mapping.name)
        tc.write_mappings(mappings, self.folder / "maps")
        return mappings

    def _write(self, mapping: tc.TaskMapping, name: str) -> None:
        for dialect in ("hostfile", "rankfile"):
            (self.folder / dialect).mkdir(parents=True, exist_ok=True)
            path = self.folder / dialect / name
            tc.write_mapping(mapping, path, dialect, hosts=self.network.hosts)

    def _placing(self, mapping: str) -> list[str]:
        return in_order(self.folder / "hostfile" / mapping, self.n_tasks)

    def wrong_places(self, mapping: str) -> int:
        """Count the ranks that stand elsewhere than a mapping says, by hostfile or rankfile."""
        torus, hosts = self.network.torus, self.network.hosts
        wanted = tc.read_mapping(self.folder / "maps" / f"{mapping}.map", torus=torus).node
        ranks = ["-np", str(self.n_tasks), "--rankfile", str(self.folder / "rankfile" / mapping)]
        wrong = 0
        for placing in (self._placing(mapping), ranks):
            tagged = ["--tag-output", *placing]
            said = self.network.run(["hostname"], tagged, LONGEST, self.folder).stdout
            path = self.folder / "placed.txt"
            path.write_text(said)
            wrong += int((tc.read_mapping(path, hosts=hosts, torus=torus).node != wanted).sum())
        return wrong

    def walk_through(self) -> str:
        """Run the commands of the guide, line by line, for this program as ./app."""
        folder, network = self.folder / "guide", self.network
        folder.mkdir()
        shutil.copy(self.folder / "torus.toml", folder / "machine.toml")
        for path in self.folder.glob("in.*"):
            shutil.copy(path, folder)
        nodes = zip(network.hosts.names, network.torus.coords.tolist(), strict=True)
        rows = [",".join([name, *map(str, place)]) for name, place in nodes]
        head = ",".join(["host", *"xyz"[: network.torus.ndim]])
        (folder / "hosts.csv").write_text("\n".join([head, *rows, ""]))
        slots = [f"{name} slots={self.setup.tasks_per_node}" for name in network.hosts.names]
        (folder / "job").write_text("\n".join([*slots, ""]))
        job = ["--mca", "orte_default_hostfile", str(folder / "job")]
        launcher = network.words([], job, LONGEST, folder)
        scripts = {
            "app": shlex.join(self.words),
            "mpirun": shlex.join(launcher[launcher.index(MPIRUN) :]) + ' "$@"',
            "mpicc": f'{MPICC} "$@"',
            "toruscast": shlex.join([sys.executable, "-c", COMMAND]) + ' "$@"',
        }
        for name, text in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\nexec {text}\n")
            (folder / name).chmod(0o755)
        took = {}
        for line in re.findall(r"^    ((?:toruscast|mpirun) .*)", GUIDE.read_text(), re.MULTILINE):
            inside = f"cd {shlex.quote(str(folder))} && PATH=$PWD:$PATH && {line}"
            done = subprocess.run(
                [*launcher[: launcher.index("timeout")], inside],
                env=network.environment([network.sleeper]),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise InputError("a command of the guide failed", found=line, expected=done.stderr)
            if match := SECONDS.search(done.stdout):
                took[" ".join(line.split()[:2])] = float(match[1])
        first, launched = took["mpirun -np"], took["toruscast launch"]
        return (
            f"The commands of the guide were run for the halo: the loop took {first:.2f} s in the "
            f"default order and {launched:.2f} s with `toruscast launch`."
        )

    def seconds(self, mapping: str) -> float:
        """Run it under a mapping; return the seconds of its loop as it says."""
        done = self.network.run(self.words, self._placing(mapping), LONGEST, self.folder)
        match = SECONDS.search(done.stdout)
        if done.returncode or match is None:
            said = (done.stderr or done.stdout)[-300:]
            raise InputError("program printed no time", file=self.folder, found=said)
        return float(match[1])


def command_of(program: str, binary: Path) -> list[str] | None:
    """The command of a program; None where it is not installed."""
    words = WORDS[program].split()
    if words[0] == "kinds":
        return [str(binary), *words[1:]]
    places = Path("/usr/lib").glob("*/scalapack/openmpi-tests/xdlu")
    found = str(next(places, "")) if words[0] == "xdlu" else shutil.which(words[0])
    return [found, *words[1:]] if found else None


def prepare(folder: Path, setup: Setup) -> None:
    """Make the folder of a program, with its inputs and the machine file of the torus."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("in.lj", "in.salt"):
        shutil.copy(INPUTS / name, folder)
    n_tasks = int(np.prod(setup.shape)) * setup.tasks_per_node
    rows = next(rows for rows in range(int(n_tasks**0.5), 0, -1) if n_tasks % rows == 0)
    (folder / "LU.dat").write_text(LU.format(n=512, rows=rows, columns=n_tasks // rows))
    tc.write_torus(setup.torus, folder / "torus.toml")
    (folder / "times.csv").write_text("mapping,time,load\n")
