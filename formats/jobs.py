"""The current batch job, and the launcher options that apply a mapping.

Environment variables: Slurm 23 (sbatch), Fujitsu's PJM (Fugaku) and Flux.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping.task_mapping import Hosts, TaskMapping, check_tasks_fit
from toruscast.mapping.torus import Torus

from .hosts import expand_list
from .placements import column_major_nodes

_REPEATED = re.compile(r"(\d{1,6})(?:\(x(\d{1,7})\))?")
_TASK_OPTIONS = ("-n", "-np", "--np", "--ntasks")
_PLACEMENT_OPTIONS = (
    *("--rankfile", "-rf", "--map-by", "--rank-by", "--vcoordfile", "--taskmap"),
    *("--distribution", "-m", "-f", "-hosts", "-machinefile", "-ppn"),
)


@dataclass(frozen=True)
class BatchJob:
    """A job of Slurm, PJM or Flux."""

    manager: str
    hosts: tuple[str, ...] = ()  # in order; empty for PJM, which has no host names
    shape: str = ""  # requested torus of a PJM job, such as "4x6x8"
    n_nodes: int | None = None
    tasks_per_node: int | None = None


def read_job(environment: Mapping[str, str], flux_hosts: str = "") -> BatchJob | None:
    """Return the job that the environment variables describe; None outside a job.

    ``flux_hosts`` is the list of hosts that Flux prints, because no variable contains it.
    """
    get = environment.get
    if nodes := get("SLURM_JOB_NODELIST") or get("SLURM_NODELIST"):
        hosts = tuple(expand_list(nodes))
        name = "SLURM_NTASKS_PER_NODE" if get("SLURM_NTASKS_PER_NODE") else "SLURM_TASKS_PER_NODE"
        return BatchJob("Slurm", hosts, "", len(hosts), _parse_max_tasks(name, get(name, "")))
    if "PJM_JOBID" in environment:
        shape = get("PJM_NODE", "")
        if not re.fullmatch(r"(\d{1,7}(x\d{1,7}){0,2})?", shape):
            raise InputError("bad PJM_NODE", found=shape, expected="a number of nodes, or 4x6x8")
        sizes = [int(size) for size in re.findall(r"\d+", shape)]
        per_node = _parse_max_tasks("PJM_PROC_BY_NODE", get("PJM_PROC_BY_NODE", ""))
        count = int(np.prod(sizes)) if sizes else None
        return BatchJob("PJM", (), shape if "x" in shape else "", count, per_node)
    if "FLUX_JOB_ID" in environment or "FLUX_URI" in environment:
        hosts = tuple(expand_list(flux_hosts))
        n_nodes = len(hosts) or _parse_max_tasks("FLUX_JOB_NNODES", get("FLUX_JOB_NNODES", ""))
        return BatchJob("Flux", hosts, "", n_nodes)
    return None


def _parse_max_tasks(name: str, text: str) -> int | None:
    """Return the largest count in a text such as ``16(x3),8``; None for an empty text."""
    if not text:
        return None
    counts = [_REPEATED.fullmatch(part.strip()) for part in text.split(",")]
    if not all(counts):
        raise InputError(f"bad {name}", found=text, expected="such as 16 or 16(x3),8")
    return max(int(match[1]) for match in counts if match)


def select_job_hosts(job: BatchJob | None, table: Hosts) -> Hosts:
    """Return the hosts of a job in the job's order, or the whole host table if there is no job."""
    if job is None:
        return table
    if not job.hosts:
        if job.n_nodes not in (None, len(table.names)):
            expected = f"the {job.n_nodes} of the job, in its order"
            raise InputError("wrong number of hosts", found=len(table.names), expected=expected)
        return table
    rows = [table.place(name) for name in job.hosts]
    if None in rows:
        missing = job.hosts[rows.index(None)]
        expected = "all hosts of the job in the table of --hosts"
        raise InputError("host not in the host table", found=missing, expected=expected)
    return Hosts(job.hosts, table.node[np.array(rows, dtype=np.int64)], table.torus)


def default_mapping(
    n_tasks: int, torus: Torus, hosts: Hosts | None, tasks_per_host: int
) -> TaskMapping:
    """Return the launcher's default mapping, which fills the hosts in order.

    Without hosts, the order is PJM's: the first coordinate varies fastest.
    """
    nodes = column_major_nodes(torus) if hosts is None else hosts.node
    check_tasks_fit(n_tasks, nodes.size, tasks_per_host)
    host, slot = np.divmod(np.arange(n_tasks), tasks_per_host)
    capacity, name = tasks_per_host, "the launcher's order"
    if hosts is not None:
        slot, capacity = slot + capacity * hosts.index[host], capacity * hosts.most
    return TaskMapping(nodes[host], torus, slot=slot, tasks_per_node=capacity, name=name)


def check_tasks(words: Sequence[str], n_tasks: int) -> None:
    """Raise `InputError` if a launcher's options map ranks or set a different number of tasks.

    Options after the name of the program are not checked.
    """
    for index, word in enumerate(words[1:], 1):
        # The value may follow the option directly, as in -n64.
        short = re.fullmatch(r"(-n)([0-9]{1,9})", word)
        option, equals, value = (short[1], "=", short[2]) if short else word.partition("=")
        if option in _PLACEMENT_OPTIONS:
            raise InputError("option places ranks already", found=word, expected="no such option")
        if option in _TASK_OPTIONS:
            count = value if equals else "".join(words[index + 1 : index + 2])
            if count.isdecimal() and int(count) != n_tasks:
                found, expected = f"{option} {count}", f"{n_tasks}, the tasks of --comm"
                raise InputError("wrong number of tasks", found=found, expected=expected)
        if not word.startswith("-") and ("/" in word or shutil.which(word)):
            return


@dataclass(frozen=True)
class LauncherOption:
    """How to pass a mapping to a launcher; ``{file}`` is a file and ``{text}`` its content."""

    dialect: str
    file: str
    option: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # Environment variables that replace the option if a script starts the launcher.
    in_script: Mapping[str, str] = field(default_factory=dict)

    def build_command(
        self, words: Sequence[str], position: int, file: str
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command line and environment variables that apply a mapping file.

        The option is inserted after ``position`` words. If a script starts the launcher,
        ``position`` is 0 and environment variables replace the option.
        """
        text = ""
        if any("{text}" in word for word in self.option):
            text = Path(file).read_text(encoding="utf-8").strip()
        option = [word.replace("{file}", file).replace("{text}", text) for word in self.option]
        variables = {**self.environment, **({} if position else self.in_script)}
        # A script may change the working directory.
        path = file if position else str(Path(file).absolute())
        variables = {name: value.replace("{file}", path) for name, value in variables.items()}
        return [*words[:position], *(option if position else ()), *words[position:]], variables


_RANKFILE = LauncherOption(
    "rankfile",
    "toruscast.rankfile",
    ("--rankfile", "{file}"),
    # Open MPI 4 and 5 read these.
    in_script={
        "OMPI_MCA_orte_rankfile": "{file}",
        "PRTE_MCA_rmaps_default_mapping_policy": "rankfile:file={file}",
    },
)
_HOSTS = "toruscast.hosts"
# Hydra assigns ranks to the lines of the file in order. A host may occur on several lines.
_HYDRA = LauncherOption(
    "hostfile", _HOSTS, ("-machinefile", "{file}"), in_script={"HYDRA_HOST_FILE": "{file}"}
)
_VCOORD = LauncherOption("vcoord", "toruscast.vcoord", ("--vcoordfile", "{file}"))
_SRUN = LauncherOption(
    "hostfile",
    _HOSTS,
    ("--distribution=arbitrary",),
    environment={"SLURM_HOSTFILE": "{file}"},
    in_script={"SLURM_DISTRIBUTION": "arbitrary"},
)
_APRUN = LauncherOption(
    "rank-order",
    "MPICH_RANK_ORDER",
    environment={"MPICH_RANK_REORDER_METHOD": "3", "MPICH_RANK_REORDER_FILE": "{file}"},
)
_FLUX = LauncherOption("flux", "toruscast.taskmap", ("--taskmap=manual:{text}",))
_LAUNCHERS = {"mpirun": _RANKFILE, "mpiexec": _RANKFILE, "prun": _RANKFILE}
_LAUNCHERS |= {"srun": _SRUN, "aprun": _APRUN, "flux": _FLUX}


def find_launcher(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher in a command line, and the number of words before its options.

    If the first or second word is a script that starts the launcher, the number of words is 0.

    Examples
    --------
    >>> find_launcher(["env", "OMP_NUM_THREADS=2", "mpirun", "-np", "4", "./app"])
    ('mpirun', 3)
    """
    paths = [Path(shutil.which(word) or word) for word in words[:2]]
    texts = [path.read_text("utf-8", "replace") for path in paths if _is_script(path)]
    script = re.sub(r"(?m)^\s*#.*", "", "\n".join(texts))
    words_of_script = re.findall(r"[^\s;&|()\"']+", script)
    for candidates, is_script in ((list(words), False), (words_of_script, True)):
        pairs = zip(candidates, [*candidates[1:], ""], strict=True)
        for position, (word, following) in enumerate(pairs, 1):
            # Debian appends the name of the library, as in mpirun.openmpi.
            name = Path(word).name.partition(".")[0]
            is_flux = name == "flux"
            if name in _LAUNCHERS and not (is_flux and following not in ("run", "submit")):
                return word, 0 if is_script else position + is_flux
    expected = "mpirun or mpiexec (Open MPI, MPICH, Fujitsu's in a job of PJM), srun, aprun, flux "
    expected += "run, or a script that starts one of them"
    raise InputError("unknown launcher", found=" ".join(words[:2]), expected=expected)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except (OSError, ValueError):
        return False


def launcher_option(
    launcher: str, job: BatchJob | None, version: str = "", *, is_in_script: bool = False
) -> LauncherOption:
    """Return how to pass a mapping to a launcher.

    ``version`` is the launcher's version text, which distinguishes MPICH (Hydra) from Open MPI.

    Examples
    --------
    >>> launcher_option("srun", None).build_command(["srun", "./app"], 1, "a.hosts")
    (['srun', '--distribution=arbitrary', './app'], {'SLURM_HOSTFILE': 'a.hosts'})
    >>> launcher_option("mpirun.openmpi", None).dialect
    'rankfile'
    >>> launcher_option("mpirun", None, "HYDRA build details:").option
    ('-machinefile', '{file}')
    """
    name, _, library = Path(launcher).name.partition(".")
    option = _LAUNCHERS[name]
    if name in ("mpiexec", "mpirun"):
        if job is not None and job.manager == "PJM":
            option = _VCOORD
        elif library in ("hydra", "mpich") or (not library and "HYDRA" in version):
            option = _HYDRA
    if is_in_script and not (option.environment or option.in_script):
        expected = f"{name} in the command, because it takes a {option.dialect} only as an option"
        raise InputError("launcher in a script", found=name, expected=expected)
    return option
