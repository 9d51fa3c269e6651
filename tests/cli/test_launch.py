"""Tests of `toruscast launch`, which passes a placement to a launcher."""

import itertools
import os
import shlex
import stat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.formats.jobs import (
    BatchJob,
    check_tasks,
    default_mapping,
    launcher_option,
    read_job,
    select_job_hosts,
)
from toruscast.mapping import Hosts
from toruscast.mapping.patterns import halo_2d

TORUS = tc.Torus((4, 4))
NAMES = [f"c{i:02d}" for i in range(16)]
SLURM = {"SLURM_JOB_NODELIST": "c[00-15]", "SLURM_TASKS_PER_NODE": "1(x16)"}
PJM = {"PJM_JOBID": "1", "PJM_NODE": "4x4", "PJM_PROC_BY_NODE": "1"}
PRINT = ["launch", "--print", "--seconds", "1", "--comm", "app.edges", "--torus", "4x4"]
PRINT += ["--hosts", "hosts.csv"]
MANAGED = ("SLURM_", "PJM_", "FLUX_")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table of hosts and a graph whose default order is slow."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(MANAGED)]:
        monkeypatch.delenv(name)
    order = np.random.default_rng(1).permutation(16)
    halo = halo_2d((4, 4), 65536)
    mixed = tc.CommGraph(16, order[halo.src], order[halo.dst], halo.nbytes)
    tc.write_comm(mixed, "app.edges")
    tc.write_comm(halo, "good.edges")
    rows = (
        f"{name},{x},{y}"
        for name, (x, y) in zip(NAMES, itertools.product(range(4), repeat=2), strict=True)
    )
    (tmp_path / "hosts.csv").write_text("\n".join(["host,x,y", *rows]) + "\n")
    return tmp_path


def launch(
    folder, monkeypatch, variables, *words, comm="app.edges", hosts=True, torus=True, out=None
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    words = ["--", *words]
    if hosts:
        words = ["--hosts", "hosts.csv", *words]
    if torus:
        words = ["--torus", "4x4", *words]
    if out:
        words = ["--out", out, *words]
    return CliRunner().invoke(main, ["launch", "--seconds", "1", "--comm", comm, *words])


def a_launcher(folder, monkeypatch, name):
    """Create a program that writes its arguments and exits with 3."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec cat version\n'
        'echo "$SLURM_HOSTFILE$MPICH_RANK_REORDER_METHOD|$@" > arguments\n'
        "cp toruscast-*/toruscast.* passed 2> /dev/null\nexit 3\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def time_of(mapping):
    comm = tc.read_comm("app.edges")
    order = default_mapping(16, TORUS, None, 1)
    return tc.simulate(comm, TORUS, mapping).time / tc.simulate(comm, TORUS, order).time


@pytest.mark.parametrize(
    ("variables", "words", "file", "arguments"),
    [
        (SLURM, "srun -n 16", "toruscast.hosts", "toruscast.hosts|--distribution=arbitrary -n 16"),
        (SLURM, "mpirun -np 16", "toruscast.rankfile", "|--rankfile toruscast.rankfile -np 16"),
        (SLURM, "aprun -n 16", "MPICH_RANK_ORDER", "3|-n 16"),
        (PJM, "mpiexec -n 16", "toruscast.vcoord", "|--vcoordfile toruscast.vcoord -n 16"),
    ],
)
def test_the_launcher_gets_a_placement(folder, monkeypatch, variables, words, file, arguments):
    a_launcher(folder, monkeypatch, words.split()[0])
    ran = launch(
        folder,
        monkeypatch,
        variables,
        *words.split(),
        "./app",
        hosts=variables is not PJM,
        out=file,
    )
    assert ran.exit_code == 3, ran.stderr
    assert (folder / "arguments").read_text().strip() == f"{arguments} ./app"
    hosts = None if variables is PJM else "hosts.csv"
    assert time_of(tc.read_mapping(file, TORUS, hosts=hosts, n_tasks=16)) < 0.9


def test_hydra_gets_a_host_for_each_rank(folder, monkeypatch):
    a_launcher(folder, monkeypatch, "mpirun")
    (folder / "version").write_text("HYDRA build details:\n    Version: 4.0.2\n")
    words = ("mpirun", "-n", "16", "./app")
    ran = launch(folder, monkeypatch, SLURM, *words, out="toruscast.hosts")
    assert ran.exit_code == 3, ran.stderr
    assert (folder / "arguments").read_text().strip() == "|-machinefile toruscast.hosts -n 16 ./app"
    assert sorted((folder / "toruscast.hosts").read_text().split()) == NAMES
    assert "it is in toruscast.hosts, a hostfile" in ran.stderr
    assert launcher_option("mpiexec.mpich", None).dialect == "hostfile"
    assert launcher_option("mpirun.openmpi", None, "HYDRA").dialect == "rankfile"


def test_flux_gets_the_map_itself(folder, monkeypatch):
    ran = launch(folder, monkeypatch, {"FLUX_JOB_ID": "f1"}, "flux", "run", "-n", "16", "./app")
    # Flux is not installed, so only print the command.
    assert ran.exit_code == 2
    ran = CliRunner().invoke(main, [*PRINT, "--", "flux", "run", "-n", "16", "./app"])
    words = shlex.split(ran.stdout)
    assert words[:2] == ["flux", "run"]
    assert words[3:] == ["-n", "16", "./app"]
    option, _, text = words[2].partition(":")
    assert option == "--taskmap=manual"
    (folder / "map.taskmap").write_text(text)
    assert time_of(tc.read_mapping("map.taskmap", TORUS, n_tasks=16)) < 0.9


def test_the_command_is_printed_for_a_script(folder, monkeypatch):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    ran = CliRunner().invoke(main, [*PRINT, "--out", "my own.hosts", "--", "srun", "./app", "a b"])
    assert ran.exit_code == 0, ran.stderr
    assert shlex.split(ran.stdout) == [
        *("SLURM_HOSTFILE=my own.hosts", "srun", "--distribution=arbitrary", "./app", "a b"),
    ]
    assert "less time in simulation" in ran.stderr


def test_the_order_of_the_hosts_is_passed_too(folder, monkeypatch):
    a_launcher(folder, monkeypatch, "srun")
    ran = launch(folder, monkeypatch, SLURM, "srun", "-n", "16", "./app", comm="good.edges")
    assert "in the order of the hosts: the best placement saves 0.0 %" in ran.stderr
    assert "|--distribution=arbitrary -n 16 ./app" in (folder / "arguments").read_text()
    assert (folder / "passed").read_text().split() == NAMES


def test_one_node_is_not_searched(folder, monkeypatch):
    a_launcher(folder, monkeypatch, "srun")
    one = {"SLURM_JOB_NODELIST": "c03", "SLURM_TASKS_PER_NODE": "16"}
    assert launch(folder, monkeypatch, one, "srun", "./app").exit_code == 3
    assert (folder / "passed").read_text().split() == ["c03"] * 16


@pytest.mark.parametrize("is_found", [True, False])
def test_the_file_is_removed_after_the_run(folder, monkeypatch, is_found):
    if is_found:
        a_launcher(folder, monkeypatch, "mpirun")
    else:
        monkeypatch.setenv("PATH", str(folder))
    before = {*folder.iterdir()}
    ran = launch(folder, monkeypatch, SLURM, "mpirun", "./app", comm="good.edges")
    assert ran.exit_code == (3 if is_found else 2), ran.stderr
    assert {*folder.iterdir()} - before == {
        folder / name for name in ("arguments", "passed")[: 2 * is_found]
    }


@pytest.mark.parametrize(
    ("launcher", "version", "variable", "value"),
    [
        ("mpirun", "(Open MPI) 4.1.4", "OMPI_MCA_orte_rankfile", "toruscast.rankfile"),
        ("mpirun", "(Open MPI) 5", "PRTE_MCA_rmaps_default_mapping_policy", "toruscast.rankfile"),
        ("mpiexec", "HYDRA build details:", "HYDRA_HOST_FILE", "toruscast.hosts"),
        ("srun", "", "SLURM_HOSTFILE", "toruscast.hosts"),
        ("aprun", "", "MPICH_RANK_REORDER_FILE", "MPICH_RANK_ORDER"),
    ],
)
def test_a_launcher_in_a_script_gets_variables(
    folder, monkeypatch, launcher, version, variable, value
):
    a_launcher(folder, monkeypatch, launcher)
    (folder / "version").write_text(version)
    script = folder / "run.sh"
    script.write_text(
        f'#!/bin/sh\n# srun starts it\nprintenv {variable} > value\n{launcher} "$@"\n'
    )
    script.chmod(0o755)
    ran = launch(folder, monkeypatch, SLURM, "./run.sh", "-x", "./app")
    assert ran.exit_code == 3, ran.stderr
    passed = (folder / "value").read_text().strip().removeprefix("rankfile:file=")
    assert Path(passed).is_absolute()
    assert Path(passed).name == value
    assert (folder / "arguments").read_text().endswith("|-x ./app\n")


def test_a_command_before_the_launcher_is_kept(folder, monkeypatch):
    a_launcher(folder, monkeypatch, "srun")
    ran = launch(folder, monkeypatch, SLURM, "env", "A=1", "srun", "-n", "16", "./app")
    assert ran.exit_code == 3, ran.stderr
    assert "|--distribution=arbitrary -n 16 ./app" in (folder / "arguments").read_text()


def test_flux_in_a_script_needs_its_option(folder, monkeypatch):
    (folder / "run.sh").write_text("#!/bin/sh\nflux run ./app\n")
    ran = launch(folder, monkeypatch, SLURM, "sh", "run.sh")
    assert ran.exit_code == 2
    assert "launcher in a script: found flux, expected flux in the command" in ran.stderr


def test_the_shape_of_a_job_on_fugaku_is_its_torus(folder, monkeypatch):
    a_launcher(folder, monkeypatch, "mpiexec")
    ran = launch(folder, monkeypatch, PJM, "mpiexec", "./app", hosts=False, torus=False)
    assert ran.exit_code == 3, ran.stderr
    assert "--vcoordfile" in (folder / "arguments").read_text()


@pytest.mark.parametrize(
    ("variables", "words", "message"),
    [
        (SLURM, "python app.py", "unknown launcher: found python app.py"),
        (SLURM, "srun -n 8 ./app", "wrong number of tasks: found -n 8, expected 16"),
        (SLURM, "srun --ntasks=8 ./app", "found --ntasks 8"),
        (SLURM, "srun -n8 ./app", "found -n 8"),
        (SLURM, "mpirun --map-by core ./app", "option places ranks already: found --map-by"),
        (SLURM, "mpirun.mpich -ppn 2 ./app", "option places ranks already: found -ppn"),
        ({"SLURM_JOB_NODELIST": "d[0-3]"}, "srun ./app", "host not in the host table: found d0"),
        ({"SLURM_JOB_NODELIST": "c[0"}, "srun ./app", "bad host name"),
        ({**SLURM, "SLURM_TASKS_PER_NODE": "many"}, "srun ./app", "bad SLURM_TASKS_PER_NODE"),
        ({"PJM_JOBID": "1", "PJM_NODE": "24"}, "mpiexec ./app", "torus of another job"),
        ({"PJM_JOBID": "1", "PJM_NODE": "a"}, "mpiexec ./app", "bad PJM_NODE"),
        (
            {"SLURM_JOB_NODELIST": "c[00-03]", "SLURM_TASKS_PER_NODE": "2(x4)"},
            "srun ./app",
            "more tasks than slots: found 16",
        ),
    ],
)
def test_wrong_jobs_are_reported_in_one_line(folder, monkeypatch, variables, words, message):
    ran = launch(folder, monkeypatch, variables, *words.split())
    assert ran.exit_code == 2
    assert len(ran.stderr.splitlines()) == 1
    assert message in ran.stderr
    assert ran.stdout == ""


def test_a_job_needs_the_places_of_its_nodes(folder, monkeypatch):
    for variables in (SLURM, {}):
        ran = launch(folder, monkeypatch, variables, "srun", "./app", hosts=False)
        assert ran.exit_code == 2
        assert "expected --hosts FILE" in ran.stderr


def test_the_fullest_node_says_how_many_tasks_a_node_takes():
    job = read_job({"SLURM_JOB_NODELIST": "a,b[1-2]", "SLURM_TASKS_PER_NODE": "2(x2),1"})
    assert (job.hosts, job.tasks_per_node) == (("a", "b1", "b2"), 2)
    job = read_job({**SLURM, "SLURM_NTASKS_PER_NODE": "4"})
    assert job.tasks_per_node == 4
    assert read_job({}) is None
    assert read_job({"FLUX_URI": "x"}, "n[1-2]\n").hosts == ("n1", "n2")
    assert read_job({"FLUX_JOB_ID": "x", "FLUX_JOB_NNODES": "3"}).n_nodes == 3


def test_hosts_of_flux_without_names_are_all_of_the_table():
    table = Hosts(["a", "b"], [1, 0], tc.Torus((2,)))
    assert select_job_hosts(BatchJob("Flux", n_nodes=2), table) is table
    with pytest.raises(InputError, match="wrong number of hosts"):
        select_job_hosts(BatchJob("Flux", n_nodes=3), table)


def test_the_launchers_order_fills_host_after_host():
    hosts = Hosts(["a", "b", "c", "d"], [1, 1, 0, 0], tc.Torus((2,)))
    mapping = default_mapping(7, hosts.torus, hosts, 2)
    assert mapping.node.tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert mapping.slot.tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_arguments_of_the_program_are_ignored():
    check_tasks(["srun", "-n", "4", "./app", "-n", "8", "--map-by", "x"], 4)
    check_tasks(["srun", "-n", "4", "sh", "-m"], 4)
    with pytest.raises(InputError):
        check_tasks(["srun", "-m", "cyclic", "./app"], 4)
    assert launcher_option("/opt/bin/mpiexec", None).dialect == "rankfile"
    assert launcher_option("mpiexec", BatchJob("PJM")).dialect == "vcoord"
