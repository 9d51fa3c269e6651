"""From the words of the command line to a mapping problem: what is sent, and over which torus."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import toruscast as tc
from toruscast import datasets
from toruscast._slow import numpy as np
from toruscast.errors import InputError, MissingFileError
from toruscast.text import closest, counted, nbytes, part_of, percent, printable, shortened, spanned
from toruscast.validation import read_bytes, read_seconds, read_sizes

from .options import Host, Include, TorusOptions, Traffic, read_pair
from .progress import working
from .slow import sources, tables

if TYPE_CHECKING:
    from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, Workload
    from toruscast.validation import Routing

# A time of a network that is longer than this many seconds lacks its unit.
_LONG = 1e-3
# Keys of --network that are fields of `Torus`, not of `Network`.
_OF_THE_TORUS = ("tie_break", "bandwidth", "routing_order", "zones")
_TIMES = ("hop_latency", "overhead", "short_overhead", "start")
_SIZES = (
    *("bandwidth", "memory_bandwidth", "payload", "header"),
    *("eager_limit", "short_limit", "deterministic_limit"),
)
# Share of the bytes left out from which on it is reported.
_NOTABLE = 0.001


def read_traffic(comm: str, include: Include, **how: Any) -> tuple[Workload, float | None]:
    """Return the traffic of a file or dataset, and the dataset's iterations.

    ``how`` goes to `read_workload`.
    """
    known = datasets.names()
    # A folder of results may be called as what was simulated.
    if is_file(comm) and not (comm in known and Path(comm).is_dir()):
        return _read(comm, include, how), None
    if comm in known:
        for option, value in how.items():
            if value not in (None, "auto", "refuse", "each", {}):
                name = "--tasks" if option == "n_tasks" else f"--{option}"
                raise InputError(f"a shipped dataset takes no {name}", file=comm, found=value)
        iterations = datasets.provenance(comm).get("iterations")
        graph = datasets.load(comm, include=include)
        return tc.mapping.as_workload(graph), None if iterations is None else float(iterations)
    # A path that does not exist may be the common prefix of per-rank files.
    try:
        return _read(comm, include, how), None
    except MissingFileError:
        if "/" in comm or "." in comm:
            raise
        raise InputError(
            "neither a file nor a shipped dataset",
            found=comm,
            expected=f"a file or {closest(comm, known)}",
        ) from None


def _read(comm: str, include: Include, how: dict[str, Any]) -> Workload:
    with working(f"Reading {shortened(printable(comm), 40)}", part_of("bytes")) as progress:
        return tc.read_workload(comm, include=include, progress=progress, **how)


def is_file(text: str) -> bool:
    """Whether a word of the command line names something that exists."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


FORM = "ALGORITHM:SIZE[:PORTS] such as allreduce/ring:64MB or allreduce/ring:64MB:2"


def _load_collective(traffic: Traffic, text: str) -> LoadedTraffic:
    """Return the rounds of a collective; on all nodes if the number of tasks is not given.

    The algorithm sees the dimensions of the torus where there is a task a node.
    """
    torus = tc.torus(traffic.torus or "")
    name, *rest = text.split(":")
    if len(rest) not in (1, 2) or not (len(rest) == 1 or rest[1].isdecimal()):
        raise InputError("bad --collective", found=text, expected=FORM)
    collectives = tc.mapping.collectives
    known = collectives.names()
    if name not in known:
        of_kind = collectives.names(name.split("/")[0])
        expected = closest(name, known, " or ".join(of_kind or known))
        raise InputError("unknown collective algorithm", found=name, expected=expected)
    tasks = torus.n_nodes if traffic.tasks is None else traffic.tasks
    shape = torus.shape if tasks == torus.n_nodes else None
    ports = int(rest[1]) if len(rest) == 2 else 1
    rounds = collectives.schedule(name, tasks, read_bytes(rest[0]), shape, ports=ports)
    return LoadedTraffic(rounds.workload(), (text,), traffic.include, None)


@dataclass(frozen=True)
class LoadedTraffic:
    """What an application sends in one iteration, and how it came about."""

    workload: Workload
    sources: tuple[str, ...]
    """Files or datasets that it was read from, or the collective."""
    traffic: str
    iterations: float | None
    """Application steps by which the graphs were divided; None if not given."""

    @property
    def source(self) -> str:
        """Its files in one text."""
        return ", ".join(self.sources)

    def describe(self) -> dict[str, object]:
        """Return what JSON output says about it."""
        total = self.workload.total
        return {
            "name": self.workload.name,
            "source": self.source,
            "tasks": total.n_tasks,
            "edges": total.n_edges,
            "bytes": float(total.nbytes.sum()),
            "messages": float(total.n_messages.sum()),
            "traffic": self.traffic,
            "iterations": self.iterations,
            "phases": list(self.sources),
            "n_phases": len(self.workload),
            "dependent": self.workload.dependent,
            "summed": self.workload.summed,
        }

    def in_words(self) -> str:
        """Return it as a line for people."""
        workload = self.workload
        comm = workload.total
        line = f"{printable(workload.name)}: {counted(comm.n_tasks, 'task')}, "
        line += f"{counted(comm.n_edges, 'edge')}, {nbytes(comm.nbytes.sum())}"
        if workload.summed:
            line += ", summed over a run"
        if len(workload) > 1:
            line += f" in {counted(len(workload), 'round' if workload.dependent else 'phase')}"
        if self.iterations is not None:
            line += f" per iteration (1/{self.iterations:g} of the capture)"
        if self.traffic != "all":
            line += f", {self.traffic.replace('_', '-')} only"
        silent = np.setdiff1d(np.arange(comm.n_tasks), np.concatenate([comm.src, comm.dst]))
        # Where it alone is silent, the warning of the file's reader says so.
        if silent.size > 1 and silent[0] == 0:
            line += "; task 0 neither sends nor receives (tasks are numbered from 0)"
        left = sum(float(phase.nbytes[phase.whole_messages == 0].sum()) for phase in workload)
        left_out = left / max(float(comm.nbytes.sum()), 1e-300)
        if left_out >= _NOTABLE:
            share = percent(left_out, digits=2)
            line += f"; {share} of them in edges of less than half a message, not simulated"
        return line


def load_application(traffic: Traffic, *, simulated: bool = True) -> LoadedTraffic:
    """Read what is sent: of one file, of several as phases after each other, or of a collective.

    If there are several files, single ones may be without messages.
    """
    if traffic.collective is not None:
        return _load_collective(traffic, traffic.collective)
    if not traffic.comms:
        raise click.UsageError("missing --comm, or --collective")
    parts = [_read_application(comm, traffic) for comm in traffic.comms]
    if len(parts) == 1 and not parts[0].workload.total.n_messages.any():
        raise InputError("communication graph without a message", file=parts[0].source)
    found = parts[0] if len(parts) == 1 and not traffic.dependent else _joined(parts, traffic)
    if simulated:
        check_sends(found.workload, found.source)
    return found


def _joined(parts: Sequence[LoadedTraffic], traffic: Traffic) -> LoadedTraffic:
    """Return the phases of all parts, one after the other."""
    for part in parts[1:]:
        if part.workload.n_tasks != parts[0].workload.n_tasks:
            found = " and ".join(f"{p.workload.n_tasks} in {p.source}" for p in (parts[0], part))
            raise InputError(
                "phases differ in their number of tasks",
                found=found,
                expected="the same, which the first line of a file may tell (in CSV: # n_tasks N)",
            )
    phases = [phase for part in parts for phase in part.workload]
    if traffic.dependent and len(phases) < 2:
        raise click.UsageError("--dependent needs several --comm, a round each")
    rounds = [part.source for part in parts if part.workload.dependent and len(part.workload) > 1]
    if rounds and not traffic.dependent:
        raise InputError(
            "rounds of one file and a barrier before another cannot be one workload",
            file=rounds[0],
            found=f"{len(parts)} files",
            expected="that file alone, or --dependent: then all files are rounds without a barrier",
        )
    names = dict.fromkeys(part.workload.name for part in parts)
    divisors = {part.iterations for part in parts}
    return LoadedTraffic(
        tc.Workload(
            phases,
            ", ".join(names),
            traffic.dependent,
            any(part.workload.summed for part in parts),
            [each for part in parts for each in part.workload.omitted],
        ),
        tuple(traffic.comms),
        traffic.include,
        divisors.pop() if len(divisors) == 1 else None,
    )


def _read_application(comm: str, traffic: Traffic) -> LoadedTraffic:
    """The traffic of a file, whether or not there is something in it to send."""
    read, known = read_traffic(comm, traffic.include, **traffic.how)
    iterations = known if traffic.iterations is None else traffic.iterations
    phases = [per_iteration(phase, iterations) for phase in read]
    if traffic.grid is not None:
        grid = read_sizes(traffic.grid.strip())
        if grid is None:
            expected = "sizes such as 8x8x8"
            raise InputError("bad task grid", found=traffic.grid, expected=expected)
        phases = [phase.renamed(phase.name, grid) for phase in phases]
    workload = replace(read, phases=phases)
    return LoadedTraffic(workload, (comm,), traffic.include, iterations)


def per_iteration(graph: CommGraph, iterations: float | None) -> CommGraph:
    """Divide a graph by the iterations that it was captured over."""
    if iterations is None:
        return graph
    if not math.isfinite(iterations):
        raise InputError("bad --iterations", found=iterations, expected="a finite number")
    return graph if iterations == 1 else graph.scaled(1 / iterations)


def check_sends(workload: Workload, file: str) -> None:
    """Raise, naming the file, unless a simulation has something to send."""
    if not any(phase.whole_messages.any() for phase in workload):
        most = max(float(phase.n_messages.max(initial=0.0)) for phase in workload)
        raise InputError(
            "at most half a message on every edge: nothing to send",
            file=file,
            found=f"{most:.2g} at most",
            expected="one in each of the --iterations; a list of edges without a fourth column has "
            "one in all",
        )


def graph_line(facts: Mapping[str, Any]) -> str:
    """Return tasks, edges, bytes and messages in words."""
    counts = [counted(round(facts[key]), key[:-1]) for key in ("tasks", "edges", "messages")]
    return ", ".join([*counts[:2], nbytes(facts["bytes"]), counts[2]])


def read_time(text: str, name: str) -> float:
    """Return the time that is given as ``name``, in seconds.

    Examples
    --------
    >>> read_time("1", "--interval")
    Traceback (most recent call last):
        ...
    toruscast.errors.InputError: --interval without a unit: found 1, expected 1us, 1ns or 1s
    """
    try:
        value = read_seconds(text)
    except InputError as error:
        raise error.replace(f"bad {name}") from None
    if text[-1:].isdigit() and value >= _LONG:
        expected = f"{text}us, {text}ns or {text}s"
        raise InputError(f"{name} without a unit", found=text, expected=expected)
    return value


def change_network(torus: Torus, changes: Sequence[str], unused: Collection[str] = ()) -> Torus:
    """Return the torus with constants of its network set by ``KEY=VALUE``.

    Also of the torus itself: ``routing_order=1,0``, ``zones=0,1/2`` (groups of dimensions, or
    ``bluegene_q``), ``tie_break=random``, ``bandwidth=1e9`` or one for each dimension,
    ``bandwidth=1e9,2e9``. Keys in ``unused`` are refused: they only affect packets, and the caller
    simulates none. ``unknown`` alone is short for ``rules=unknown``.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> change_network(Torus((4, 4)), ["deadlock=dateline", "overhead=1us"]).network.overhead
    1e-06
    >>> change_network(Torus((4, 4)), ["routing_order=1,0", "zones=0/1"]).routing_order
    (1, 0)
    """
    everything = [field.name for field in fields(tc.Network)] + list(_OF_THE_TORUS)
    known = [key for key in everything if key not in unused]
    texts: dict[str, str] = {}
    for change in changes:
        # The short form for a machine whose rules are not public.
        change = "rules=unknown" if change.strip() == "unknown" else change
        key, text = read_pair(change, "--network")
        if key in unused:
            raise InputError(
                "--network key that changes nothing without packets",
                found=key,
                expected=f"one of {', '.join(known)}, or 'toruscast simulate'",
            )
        if key not in known:
            raise InputError(
                "unknown --network key", found=key, expected=closest(key, known, ", ".join(known))
            )
        if key in texts:
            raise InputError("--network key given twice", found=change, expected="one value")
        texts[key] = text
    try:
        values = {key: _value_of(key, text) for key, text in texts.items()}
        of_torus = {key: values.pop(key) for key in _OF_THE_TORUS if key in values}
        return replace(torus.with_network(**values), **of_torus)  # type: ignore[arg-type]
    except InputError as error:
        raise error.replace(f"--network: {error.message}") from None


def _value_of(key: str, text: str) -> object:
    """Return the value of a constant: a number where the text is one, in the constant's unit."""
    if key in _TIMES:
        return read_time(text, key)
    if key == "routing_order" or (key == "zones" and not text.isidentifier()):
        words = text.split("/") if key == "zones" else [text]
        zones = [[part.strip() for part in word.split(",")] for word in words]
        if not all(re.fullmatch("[0-9]{1,2}", part) for zone in zones for part in zone):
            expected = "numbers of dimensions such as 1,0"
            raise InputError(f"bad {key}", found=repr(text), expected=expected)
        groups = tuple(tuple(map(int, zone)) for zone in zones)
        return groups if key == "zones" else groups[0]
    if key == "bandwidth" and "," in text:
        return tuple(_value_of(key, part) for part in text.split(","))
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return read_bytes(text.removesuffix("/s")) if key in _SIZES else float(text)
    with suppress(ValueError):
        return float(text)
    return text


def only_nodes(torus: Torus, path: str) -> Torus:
    """Return the torus with the nodes alone that a file lists.

    A node is a number, or its coordinates; one a line, or in a CSV the column ``node``. A table of
    hosts, as of ``--hosts``, lists theirs.
    """
    text = sources.read_text(path)
    lines = list(text.lines())
    head = sources.cells(lines[0][1])[1] if lines else []
    if "host" in head:
        nodes = {*tc.read_hosts(path, torus).node.tolist()}
    else:
        column = head.index("node") if "node" in head else None
        nodes = set()
        for number, line in lines[column is not None :]:
            words = re.split(r"[,;\s]+", line.strip(" ()\t"))
            if column is not None:
                words = sources.cells(line)[1][column : column + 1]
            node = _read_node(torus, words)
            if node is None:
                expected = f"0 to {torus.n_nodes - 1} or {torus.ndim} coordinates, one node a "
                expected += "line, or a CSV with a column node"
                raise text.fault("bad node", number, line, expected)
            if node in nodes:
                raise text.fault("node stands twice", number, node, "each node once")
            nodes.add(node)
    if not nodes:
        raise text.fault("allocation without a node")
    return torus.without(nodes=sorted(set(range(torus.n_nodes)) - nodes))


def _read_node(torus: Torus, words: Sequence[str]) -> int | None:
    with suppress(InputError):
        if all(re.fullmatch("[0-9]{1,9}", word) for word in words):
            numbers = [int(word) for word in words]
            of_one = len(numbers) == 1 and numbers[0] < torus.n_nodes
            return numbers[0] if of_one else int(torus.node(numbers))
    return None


def change_links(torus: Torus, path: str) -> Torus:
    """Return the torus with links as slow as a CSV has them, and without those of bandwidth 0."""
    text = sources.read_text(path)
    names = ["link", "bandwidth"]
    _, rows = tables.read_words(text, text.lines(), lambda head: head == names, names)
    rates: dict[int, float] = {}
    for number, (word, rate) in rows:
        with text.at(number):
            link = torus.read_link(word)
            try:
                bandwidth = float(rate)
            except ValueError:
                raise InputError("bad bandwidth", found=rate, expected="bytes per second") from None
            if link in rates:
                raise InputError("link stands twice", found=word, expected="each link once")
            # Checked one by one, so that the line is known.
            torus.with_links({link: bandwidth}) if bandwidth else torus.without(links=[link])
            rates[link] = bandwidth
    slow = {link: rate for link, rate in rates.items() if rate}
    return torus.with_links(slow).without(links=sorted(rates.keys() - slow))


def load_torus(traffic: TorusOptions, unused: Collection[str] = ()) -> Torus:
    """Read a torus or a machine, and change its network; what is ``unused`` must not be set."""
    if traffic.torus is None:
        raise click.UsageError("missing --torus")
    torus = tc.torus(traffic.torus)
    if torus.twist and "twisted" not in traffic.torus.lower():
        sizes = "x".join(map(str, torus.shape))
        name = f"{torus.name}:{sizes}"
        # Also where messages are not wanted: other machines of that name are not twisted.
        click.echo(
            f"toruscast: {name} is a twisted torus; {name}:untwisted is a plain one", err=True
        )
    torus = change_network(torus, traffic.changes, unused)
    if not isinstance(traffic, Host):
        return torus
    if traffic.allocation is not None:
        torus = only_nodes(torus, traffic.allocation)
    return torus if traffic.slow_links is None else change_links(torus, traffic.slow_links)


@dataclass(frozen=True)
class Setting:
    """A problem, where its traffic is from, and the ``changes`` of its network."""

    application: LoadedTraffic
    problem: MappingProblem
    changes: Sequence[str] = ()

    def describe(self) -> dict[str, Any]:
        """Return what JSON output says about it."""
        torus = self.problem.torus
        return {
            "application": self.application.describe(),
            "torus": {
                "name": str(torus),
                "nodes": torus.n_nodes,
                "bandwidth": torus.bandwidth,
                "routing_order": torus.routing_order,
                "tie_break": torus.tie_break,
                "zones": torus.zones,
            },
        }

    def in_words(self) -> str:
        """Return it as a line for people."""
        changed = f"; {', '.join(map(printable, self.changes))}" if self.changes else ""
        return f"{self.application.in_words()}; on torus {self.problem.torus}{changed}"

    def of(self, mappings: Sequence[TaskMapping]) -> str:
        """Return it with the candidates, as a line for people."""
        n = counted(len(mappings), "candidate mapping")
        return f"{self.in_words()}; {n}, {occupancy(mappings)}"


def load_setting(
    traffic: Traffic,
    routing: Routing,
    unused: Collection[str] = (),
    *,
    simulated: bool = True,
) -> Setting:
    """Read what is sent and the torus; keys of its network that are ``unused`` must not be set."""
    application = load_application(traffic, simulated=simulated)
    torus = load_torus(traffic, unused)
    problem = tc.MappingProblem(application.workload, torus, routing)
    return Setting(application, problem, traffic.changes)


def occupancy(mappings: Sequence[TaskMapping]) -> str:
    """Return the tasks on a node that has any, and how many nodes have, where not all do.

    Examples
    --------
    >>> from toruscast.mapping import TaskMapping
    >>> occupancy([TaskMapping([3, 2, 1, 0], 4)])
    '1 task a node'
    >>> occupancy([TaskMapping([0, 0, 0, 1], 4, tasks_per_node=3)])
    '1 to 3 tasks a node on 2 of 4 nodes'
    """
    seen = Occupancy()
    for mapping in mappings:
        seen.note(mapping)
    return str(seen)


class Occupancy:
    """Tasks per node over a stream of mappings, which are counted and not stored."""

    def __init__(self) -> None:
        self.n = self.n_nodes = 0
        self.tasks: set[int] = set()
        self.used: set[int] = set()

    def note(self, mapping: TaskMapping) -> TaskMapping:
        """Count a mapping in, and return it."""
        load = mapping.occupancy[mapping.occupancy > 0]
        self.n += 1
        self.n_nodes = mapping.n_nodes
        self.tasks |= {int(load.min()), int(load.max())}
        self.used.add(load.size)
        return mapping

    def __str__(self) -> str:
        plural = "" if self.tasks == {1} else "s"
        text = f"{spanned(self.tasks)} task{plural} a node"
        if self.used == {self.n_nodes}:
            return text
        return f"{text} on {spanned(self.used)} of {counted(self.n_nodes, 'node')}"
