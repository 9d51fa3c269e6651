"""The batch job of the environment, and the options by which launchers take a mapping.

Variables are those of Slurm 23 (sbatch), Fujitsu's PJM (Fugaku) and Flux.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping.task_mapping import Hosts, TaskMapping, check_tasks_fit
from toruscast.mapping.torus import Torus

from .hosts import expand_list
from .placements import first_fastest

_REPEATED = re.compile(r"(\d{1,6})(?:\(x(\d{1,7})\))?")
# Options with the number of tasks.
_COUNTS = ("-n", "-np", "--np", "--ntasks")
# Options that place ranks themselves.
_PLACING = (
    *("--rankfile", "-rf", "--map-by", "--rank-by", "--vcoordfile", "--taskmap"),
    *("--distribution", "-m", "-f", "-hosts", "-machinefile", "-ppn"),
)


@dataclass(frozen=True)
class BatchJob:
    """A job of Slurm, PJM or Flux."""

    manager: str
    # In the order of the allocation; none for PJM, whose nodes have no names.
    hosts: tuple[str, ...] = ()
    # Sizes of the job's own torus, from PJM.
    shape: str = ""
    n_nodes: int | None = None
    tasks_per_node: int | None = None


def read_job(environment: Mapping[str, str], flux_hosts: str = "") -> BatchJob | None:
    """Return the job that variables describe; None outside of one."""
    get = environment.get
    if nodes := get("SLURM_JOB_NODELIST") or get("SLURM_NODELIST"):
        hosts = tuple(expand_list(nodes))
        name = "SLURM_NTASKS_PER_NODE" if get("SLURM_NTASKS_PER_NODE") else "SLURM_TASKS_PER_NODE"
        return BatchJob("Slurm", hosts, "", len(hosts), _max_tasks(name, get(name, "")))
    if "PJM_JOBID" in environment:
        shape = get("PJM_NODE", "")
        if not re.fullmatch(r"(\d{1,7}(x\d{1,7}){0,2})?", shape):
            raise InputError("bad PJM_NODE", found=shape, expected="a number of nodes, or 4x6x8")
        sizes = [int(size) for size in re.findall(r"\d+", shape)]
        per_node = _max_tasks("PJM_PROC_BY_NODE", get("PJM_PROC_BY_NODE", ""))
        count = int(np.prod(sizes)) if sizes else None
        return BatchJob("PJM", (), shape if "x" in shape else "", count, per_node)
    if "FLUX_JOB_ID" in environment or "FLUX_URI" in environment:
        hosts = tuple(expand_list(flux_hosts))
        n_nodes = len(hosts) or _max_tasks("FLUX_JOB_NNODES", get("FLUX_JOB_NNODES", ""))
        return BatchJob("Flux", hosts, "", n_nodes)
    return None


def _max_tasks(name: str, text: str) -> int | None:
    """Tasks of the fullest node, of a list such as ``16(x3),8``."""
    if not text:
        return None
    counts = [_REPEATED.fullmatch(part.strip()) for part in text.split(",")]
    if not all(counts):
        raise InputError(f"bad {name}", found=text, expected="such as 16 or 16(x3),8")
    return max(int(match[1]) for match in counts if match)


def hosts_of(job: BatchJob | None, table: Hosts) -> Hosts:
    """Return the job's hosts, in its order, of a table of the machine's; all outside of a job."""
    if job is None:
        return table
    if not job.hosts:
        if job.n_nodes not in (None, len(table.names)):
            expected = f"the {job.n_nodes} of the job, in its order"
            raise InputError("hosts of another job", found=len(table.names), expected=expected)
        return table
    places = [table.place(name) for name in job.hosts]
    for name, place in zip(job.hosts, places, strict=True):
        if place is None:
            expected = "every host of the job in the table of --hosts"
            raise InputError("host without a place", found=name, expected=expected)
    nodes = table.node[np.array(places, dtype=np.int64)]
    return Hosts(job.hosts, nodes, table.torus)


def in_order(n_tasks: int, torus: Torus, hosts: Hosts | None, share: int) -> TaskMapping:
    """Return a launcher's default mapping, which fills host after host.

    Without hosts the nodes are those of PJM's jobs, the first coordinate fastest.
    """
    nodes = first_fastest(torus) if hosts is None else hosts.node
    check_tasks_fit(n_tasks, nodes.size, share)
    place = np.arange(n_tasks) // share
    slot = np.arange(n_tasks) % share
    most = 1
    if hosts is not None:
        slot, most = slot + share * hosts.index[place], hosts.most
    return TaskMapping(
        nodes[place], torus, slot=slot, tasks_per_node=share * most, name="the launcher's order"
    )


def check_tasks(words: Sequence[str], n_tasks: int) -> None:
    """Raise `InputError` if options give another number of tasks, or place them.

    Words behind the program are its own arguments.
    """
    for place, word in enumerate(words[1:], 1):
        # The short option may hold its value: -n64.
        joined = re.fullmatch(r"(-n)([0-9]{1,9})", word)
        option, equals, value = (joined[1], "=", joined[2]) if joined else word.partition("=")
        if option in _PLACING:
            expected = "no options that place ranks"
            raise InputError("ranks are placed already", found=word, expected=expected)
        if option in _COUNTS:
            count = value if equals else "".join(words[place + 1 : place + 2])
            if count.isdecimal() and int(count) != n_tasks:
                found, expected = f"{option} {count}", f"{n_tasks}, the tasks of --comm"
                raise InputError("another number of tasks", found=found, expected=expected)
        if not word.startswith("-") and ("/" in word or shutil.which(word)):
            return


@dataclass(frozen=True)
class LauncherOption:
    """How a launcher takes a mapping: ``{file}`` is a file, ``{text}`` its content."""

    dialect: str
    file: str
    # Words behind the first ``behind`` of the launcher.
    option: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    behind: int = 1

    def words(self, words: Sequence[str], file: str) -> tuple[list[str], dict[str, str]]:
        """Return the launcher's words and variables, the mapping being in a file."""
        text = ""
        if any("{text}" in word for word in self.option):
            text = Path(file).read_text(encoding="utf-8").strip()
        option = [word.replace("{file}", file).replace("{text}", text) for word in self.option]
        variables = {name: value.replace("{file}", file) for name, value in self.environment}
        return [*words[: self.behind], *option, *words[self.behind :]], variables


_RANKFILE = LauncherOption("rankfile", "toruscast.rankfile", ("--rankfile", "{file}"))
# Ranks go to the hosts of the lines in turn; a host may stand on several.
_HYDRA = LauncherOption("hostfile", "toruscast.hosts", ("-machinefile", "{file}"))
_VCOORD = LauncherOption("vcoord", "toruscast.vcoord", ("--vcoordfile", "{file}"))
_SRUN = LauncherOption(
    "hostfile", "toruscast.hosts", ("--distribution=arbitrary",), (("SLURM_HOSTFILE", "{file}"),)
)
_APRUN = LauncherOption(
    "rank-order",
    "MPICH_RANK_ORDER",
    environment=(("MPICH_RANK_REORDER_METHOD", "3"), ("MPICH_RANK_REORDER_FILE", "{file}")),
)
_FLUX = LauncherOption("flux", "toruscast.taskmap", ("--taskmap=manual:{text}",), behind=2)


def launcher_option(
    words: Sequence[str], job: BatchJob | None, version: str = ""
) -> LauncherOption:
    """Return how the launcher of a command takes a mapping.

    ``version`` is its own version text, because Open MPI's launchers and MPICH's (Hydra) have the
    same names.

    Examples
    --------
    >>> launcher_option(["srun", "./app"], None).words(["srun", "./app"], "a.hosts")
    (['srun', '--distribution=arbitrary', './app'], {'SLURM_HOSTFILE': 'a.hosts'})
    >>> launcher_option(["mpirun.openmpi", "./app"], None).dialect
    'rankfile'
    >>> launcher_option(["mpirun", "./app"], None, "HYDRA build details:").option
    ('-machinefile', '{file}')
    """
    # Debian's names where several MPI libraries are installed.
    name, _, library = Path(words[0]).name.partition(".") if words else ("", "", "")
    if name in ("mpiexec", "mpirun"):
        if job is not None and job.manager == "PJM":
            return _VCOORD
        if library in ("hydra", "mpich") or (not library and "HYDRA" in version):
            return _HYDRA
    known = {"mpirun": _RANKFILE, "mpiexec": _RANKFILE, "prun": _RANKFILE}
    known |= {"srun": _SRUN, "aprun": _APRUN}
    if name == "flux" and len(words) > 1 and words[1] in ("run", "submit"):
        return _FLUX
    if name not in known:
        expected = "mpirun or mpiexec (Open MPI, MPICH, Fujitsu's in a job of PJM), srun, aprun, "
        raise InputError(
            "unknown launcher", found=" ".join(words[:2]), expected=expected + "or flux run"
        )
    return known[name]
