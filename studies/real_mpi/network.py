"""A torus of network namespaces on this machine, on which real MPI programs run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import toruscast as tc

# Open MPI of Debian beside another MPI library has names of its own.
MPIRUN, MPICC = (
    next(filter(shutil.which, (f"{name}.openmpi", name)), name) for name in ("mpirun", "mpicc")
)
TOOLS = ("ip", "tc", "unshare", "nsenter", "sysctl", MPIRUN, MPICC)
# Torus interfaces carry frames of 3,000 bytes; the largest burst is little more than one.
_MTU, _BURST = 3000, 3100
# Open MPI talks over TCP on the torus, and is started over a bridge that is no part of it.
_SETTINGS = {
    "plm": "rsh",
    "plm_rsh_no_tree_spawn": "1",
    "oob_tcp_if_include": "mg0",
    "btl": "tcp,self",
    "btl_tcp_if_include": "hsn0",
    "pml": "ob1",
    "orte_keep_fqdn_hostnames": "1",
    "mpi_yield_when_idle": "1",
}
_SLEEP = Path(__file__).parents[2] / "datasets" / "capture" / "sleep_when_idle.c"
_SLEEP_NS = 300_000
_AGENT = """#!/bin/sh
# mpirun calls it as it calls ssh: options, the host, the command.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c '
mount --bind "$0" /etc/hosts && hostname "$1" && exec sh -c "$2"' HOSTS "$host" "$*"
"""


def missing() -> str | None:
    """Return what this machine lacks for such a network; None if nothing."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return "Linux with iproute2 and Open MPI (not found: " + ", ".join(absent) + ")"
    try:
        with _own_namespaces() as enter:
            shaped = f"tc qdisc add dev veth0 root tbf rate 5mbit burst {_BURST} limit 30000"
            made = f"ip netns add n0 && ip link add veth0 type veth peer name veth1 && {shaped}"
            _run([*enter, "sh", "-c", made])
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        return "root, or user namespaces with network namespaces inside: " + "".join(said)
    return None


class EmulatedTorus:
    """A running torus: a namespace a node, a shaped pair of interfaces a link, static routes.

    Routes go in the order of the dimensions; of two equal ways the parity of the coordinates
    chooses (``sum_parity``). All is inside of one namespace of its own: nothing of it outlives the
    process.

    Parameters
    ----------
    torus : Torus
        Its sizes, and the bandwidth of each link.
    folder : Path
        Where the files go that programs are started with.
    """

    def __init__(self, torus: tc.Torus, folder: Path) -> None:
        self.torus, self.folder = torus, folder.absolute()
        nodes = range(torus.n_nodes)
        self.hosts = tc.Hosts([f"n{node}" for node in nodes], list(nodes), torus)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [f"{_bridge(node)} n{node}" for node in range(self.torus.n_nodes)]
        listed = self.folder / "hosts"
        listed.write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        self._agent = self.folder / "agent"
        self._agent.write_text(_AGENT.replace("HOSTS", str(listed)))
        self._agent.chmod(0o755)
        self.sleeper = self.folder / "sleep.so"
        compile_c(_SLEEP, self.sleeper, "-shared", "-fPIC", f"-DPAUSE_NS={_SLEEP_NS}", "-ldl")
        self._enter = self._open.enter_context(_own_namespaces())
        script = self.folder / "network.sh"
        script.write_text("set -e\n" + "\n".join(_commands(self.torus)) + "\n")
        try:
            _run([*self._enter, "sh", str(script)])
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    def words(
        self, program: Sequence[str], placing: Sequence[str], seconds: int, folder: Path
    ) -> list[str]:
        """Return the command that runs a program in a folder, on the torus, for so long at most.

        ``placing`` are the options of mpirun that say how many ranks there are, and where.
        """
        settings = {**_SETTINGS, "plm_rsh_agent": str(self._agent)}
        own = [word for each in settings.items() for word in ("--mca", *each)]
        own += ["--bind-to", "none", "-wdir", str(folder.absolute())]
        return [
            *(*self._enter, str(self._agent), "n0", "timeout", "--kill-after=5", str(seconds)),
            *(MPIRUN, *own, *placing, *program),
        ]

    def environment(self, preload: Iterable[Path] = ()) -> dict[str, str]:
        """Return the environment of a launch, whose ranks load these libraries."""
        own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        libraries = " ".join(map(str, preload))
        own["OMPI_MCA_mca_base_env_list"] = f"LD_PRELOAD={libraries}" if libraries else ""
        return os.environ | own | {"OMP_NUM_THREADS": "1", "LC_ALL": "C"}

    def run(
        self, program: Sequence[str], placing: Sequence[str], seconds: int, folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a folder; its ranks sleep while they wait."""
        return subprocess.run(
            self.words(program, placing, seconds, folder),
            env=self.environment([self.sleeper]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def compile_c(source: Path, target: Path, *options: str) -> None:
    """Compile a C file with the compiler of Open MPI.

    Raises
    ------
    CalledProcessError
        If it does not compile.
    """
    _run([MPICC, "-O2", "-o", str(target), str(source), *options])


def in_order(hosts: Path, n_tasks: int) -> list[str]:
    """Return the options of mpirun that put rank after rank on the hosts of a file."""
    return ["-np", str(n_tasks), "--mca", "rmaps", "seq", "--hostfile", str(hosts)]


@contextmanager
def _own_namespaces() -> Iterator[list[str]]:
    """Namespaces of our own; yields the words by which a command enters them."""
    mine = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    # It ends with its input: also where this process is killed.
    keeper = subprocess.Popen(
        ["unshare", *mine, "--net", "--mount", "sh", "-c", "mount -t tmpfs run /run; echo; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with keeper:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if not keeper.stdout.readline():
            raise OSError(keeper.stderr.read())
        user = ["--user", "--preserve-credentials"] if mine else []
        yield ["nsenter", f"--target={keeper.pid}", *user, "--net", "--mount"]


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


def _address(node: int) -> str:
    return f"10.9.{node // 250}.{node % 250 + 1}"


def _bridge(node: int) -> str:
    return f"10.8.{node // 250}.{node % 250 + 1}"


def _mac(node: int, dimension: int, direction: int) -> str:
    return f"02:00:{node // 256:02x}:{node % 256:02x}:{dimension:02x}:{direction:02x}"


def _commands(torus: tc.Torus) -> list[str]:
    """The shell commands that build a torus."""
    nodes, sides = range(torus.n_nodes), [(d, s) for d in range(torus.ndim) for s in (0, 1)]
    lines = [f"ip netns add n{node}" for node in nodes]
    lines += ["ip netns add hub", "ip -n hub link add br0 type bridge", "ip -n hub link set br0 up"]
    for node in nodes:
        lines += [
            f"ip link add mg0 netns n{node} type veth peer name p{node} netns hub",
            f"ip -n hub link set p{node} master br0 up",
        ]
        for d in range(torus.ndim):
            other = _neighbor(torus, node, d, 0)
            own = f"netns n{node} address {_mac(node, d, 0)} mtu {_MTU}"
            far = f"netns n{other} address {_mac(other, d, 1)} mtu {_MTU}"
            lines.append(f"ip link add d{d}s0 {own} type veth peer name d{d}s1 {far}")
    for node in nodes:
        # Open MPI does not use addresses of the loopback interface: a pair that ends here has it.
        inside = [
            "link set lo up",
            f"link add hsn0 mtu {_MTU} type veth peer name hsn1 mtu {_MTU}",
            *("link set hsn1 up", "link set hsn0 up", "link set mg0 up"),
            *(f"addr add {_address(node)}/32 dev hsn0", f"addr add {_bridge(node)}/16 dev mg0"),
        ]
        shaped = []
        for d, side in sides:
            device, peer = f"d{d}s{side}", _neighbor(torus, node, d, side)
            mac = _mac(peer, d, 1 - side)
            inside += [
                f"link set {device} up gso_max_segs 1",
                f"neigh replace {_address(peer)} lladdr {mac} dev {device} nud permanent",
            ]
            bits = round(8 * torus.link_bandwidth[torus.link(node, d, 1 - 2 * side)])
            rate = f"rate {bits}bit burst {_BURST} limit 3000000"
            shaped.append(f"tc -n n{node} qdisc replace dev {device} root tbf {rate}")
        for target in nodes:
            if target != node:
                d, s = _first_link(torus, node, target)
                way = f"via {_address(_neighbor(torus, node, d, s))} dev d{d}s{s} onlink"
                kept = f"src {_address(node)} initcwnd 64 rto_min 4s"
                inside.append(f"route add {_address(target)}/32 {way} {kept}")
        lines += [f"ip -n n{node} -batch - <<END", *inside, "END", *shaped]
        sysctl = "net.ipv4.ip_forward=1 net.ipv4.tcp_slow_start_after_idle=0"
        off = (
            "for d in /proc/sys/net/ipv4/conf/*; do echo 0 >$d/rp_filter; echo 0 >$d/send_redirects"
        )
        lines.append(f"ip netns exec n{node} sh -c 'sysctl -qw {sysctl}; {off}; done'")
    return lines


def _neighbor(torus: tc.Torus, node: int, d: int, s: int) -> int:
    return int(torus.neighbors[node, 2 * d + s])


def _first_link(torus: tc.Torus, source: int, target: int) -> tuple[int, int]:
    """Dimension and direction of the first link from a node to another."""
    here, there = (torus.coords[node].tolist() for node in (source, target))
    d = next(d for d in range(torus.ndim) if here[d] != there[d])
    ahead, size = (there[d] - here[d]) % torus.shape[d], torus.shape[d]
    parity = here[d] + sum(there) - there[d]
    return d, int(2 * ahead > size or (2 * ahead == size and parity % 2 == 1))
