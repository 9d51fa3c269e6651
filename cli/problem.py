"""Read the traffic and the torus of a command as a mapping problem."""

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

from .options import AllocationOptions, Include, TorusOptions, TrafficOptions, read_pair
from .progress import show_progress
from .slow import format_source, tables

if TYPE_CHECKING:
    from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
    from toruscast.validation import Routing

# Network times of at least this many seconds must be given with a unit.
_LONG_TIME = 1e-3
# Keys of --network that are fields of `Torus` instead of `Network`.
_TORUS_KEYS = ("tie_break", "bandwidth", "routing_order", "zones")
_TIME_KEYS = ("hop_latency", "overhead", "short_overhead", "start")
_SIZE_KEYS = (
    *("bandwidth", "memory_bandwidth", "payload", "header"),
    *("eager_limit", "short_limit", "deterministic_limit"),
)
# The summary mentions bytes in edges without a whole message if their share is at least this.
_MIN_REPORTED_SHARE = 0.001


def read_traffic(comm: str, include: Include, **arguments: Any) -> tuple[Workload, float | None]:
    """Return the traffic of a file or dataset, and a dataset's number of iterations if known.

    ``arguments`` are passed to `read_workload`.
    """
    shipped = datasets.names()
    # A folder of results may have the same name as the dataset that was simulated.
    if path_exists(comm) and not (comm in shipped and Path(comm).is_dir()):
        return _read_workload(comm, include, arguments), None
    if comm in shipped:
        for option, value in arguments.items():
            if value not in (None, "auto", "refuse", "each", {}):
                name = "--tasks" if option == "n_tasks" else f"--{option}"
                raise InputError(f"a shipped dataset takes no {name}", file=comm, found=value)
        iterations = datasets.provenance(comm).get("iterations")
        graph = datasets.load(comm, include=include)
        return tc.mapping.as_workload(graph), None if iterations is None else float(iterations)
    # A missing path may be the common prefix of per-rank files.
    try:
        return _read_workload(comm, include, arguments), None
    except MissingFileError:
        if "/" in comm or "." in comm:
            raise
        fault = "neither a file nor a shipped dataset"
        expected = f"a file or {closest(comm, shipped)}"
        raise InputError(fault, found=comm, expected=expected) from None


def _read_workload(comm: str, include: Include, arguments: dict[str, Any]) -> Workload:
    with show_progress(f"Reading {shortened(printable(comm), 40)}", part_of("bytes")) as progress:
        return tc.read_workload(comm, include=include, progress=progress, **arguments)


def path_exists(text: str) -> bool:
    """Whether a path exists; False for text that cannot be a path."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _load_collective(traffic: TrafficOptions, text: str) -> LoadedTraffic:
    """Return the rounds of a collective on ``--tasks`` tasks, by default one task per node."""
    torus = tc.torus(traffic.torus or "")
    match = re.fullmatch(r"([^:]*):([^:]*)(?::([0-9]+))?", text)
    if match is None:
        example = "ALGORITHM:SIZE[:PORTS] such as allreduce/ring:64MB or allreduce/ring:64MB:2"
        raise InputError("bad --collective", found=text, expected=example)
    name, size, ports = match.groups()
    collectives = tc.mapping.collectives
    known = collectives.names()
    if name not in known:
        of_kind = collectives.names(name.split("/")[0])
        expected = closest(name, known, " or ".join(of_kind or known))
        raise InputError("unknown collective algorithm", found=name, expected=expected)
    n_tasks = torus.n_nodes if traffic.tasks is None else traffic.tasks
    # Algorithms follow the dimensions of the torus if each node has one task.
    shape = torus.shape if n_tasks == torus.n_nodes else None
    rounds = collectives.schedule(name, n_tasks, read_bytes(size), shape, ports=int(ports or 1))
    return LoadedTraffic(rounds.workload(), (text,), traffic.include, None)


@dataclass(frozen=True)
class LoadedTraffic:
    """Traffic of one iteration of an application.

    ``sources`` are the files, the datasets or the collective. Traffic from files is already divided
    by ``iterations``, unless that is None.
    """

    workload: Workload
    sources: tuple[str, ...]
    include: str
    iterations: float | None

    @property
    def source(self) -> str:
        """The names of all sources."""
        return ", ".join(self.sources)

    def describe(self) -> dict[str, object]:
        """Return the entries of JSON output."""
        total = self.workload.total
        return {
            "name": self.workload.name,
            "source": self.source,
            "tasks": total.n_tasks,
            "edges": total.n_edges,
            "bytes": float(total.nbytes.sum()),
            "messages": float(total.n_messages.sum()),
            "traffic": self.include,
            "iterations": self.iterations,
            "phases": list(self.sources),
            "n_phases": len(self.workload),
            "dependent": self.workload.dependent,
            "summed": self.workload.summed,
        }

    def summary(self) -> str:
        """Return a summary of the traffic in one line."""
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
        if self.include != "all":
            line += f", {self.include.replace('_', '-')} only"
        silent = np.setdiff1d(np.arange(comm.n_tasks), np.concatenate([comm.src, comm.dst]))
        # If task 0 alone has no traffic, the file's reader has already warned.
        if silent.size > 1 and silent[0] == 0:
            line += "; task 0 neither sends nor receives (tasks are numbered from 0)"
        unsent = sum(float(phase.nbytes[phase.whole_messages == 0].sum()) for phase in workload)
        share = unsent / max(float(comm.nbytes.sum()), 1e-300)
        if share >= _MIN_REPORTED_SHARE:
            line += f"; {percent(share, digits=2)} of the bytes are not simulated, because they "
            line += "are in edges of less than half a message"
        return line


def load_application(traffic: TrafficOptions, *, simulated: bool = True) -> LoadedTraffic:
    """Read the traffic of a file, of several files as phases, or of a collective.

    Raises InputError if a single file has no message or, if ``simulated``, no edge has a whole one.
    """
    if traffic.collective is not None:
        return _load_collective(traffic, traffic.collective)
    if not traffic.comms:
        raise click.UsageError("missing --comm or --collective")
    parts = [_read_application(comm, traffic) for comm in traffic.comms]
    if len(parts) == 1 and not parts[0].workload.total.n_messages.any():
        raise InputError("communication graph without a message", file=parts[0].source)
    is_single = len(parts) == 1 and not traffic.dependent
    application = parts[0] if is_single else _join_phases(parts, traffic)
    workload = application.workload
    if simulated and not any(phase.whole_messages.any() for phase in workload):
        maximum = max(float(phase.n_messages.max(initial=0.0)) for phase in workload)
        raise InputError(
            "no edge has more than half a message per iteration",
            file=application.source,
            found=f"at most {maximum:.2g}",
            expected="1 or more; a smaller --iterations raises the number, and edges without a "
            "fourth column have one message in total",
        )
    return application


def _join_phases(parts: Sequence[LoadedTraffic], traffic: TrafficOptions) -> LoadedTraffic:
    """Return the graphs of several files as phases, or as rounds with --dependent."""
    for part in parts[1:]:
        if part.workload.n_tasks != parts[0].workload.n_tasks:
            found = " and ".join(f"{p.workload.n_tasks} in {p.source}" for p in (parts[0], part))
            expected = "the same number; the first line of a file may state it (CSV: # n_tasks N)"
            fault = "phases differ in their number of tasks"
            raise InputError(fault, found=found, expected=expected)
    phases = [phase for part in parts for phase in part.workload]
    if traffic.dependent and len(phases) < 2:
        raise click.UsageError("--dependent needs several --comm, one per round")
    rounds = [part.source for part in parts if part.workload.dependent and len(part.workload) > 1]
    if rounds and not traffic.dependent:
        fault = "a file of dependent rounds cannot be one of several phases"
        found = f"{len(parts)} files"
        expected = "that file alone, or --dependent to make all files rounds"
        raise InputError(fault, file=rounds[0], found=found, expected=expected)
    names = dict.fromkeys(part.workload.name for part in parts)
    iterations = {part.iterations for part in parts}
    workload = tc.Workload(
        phases,
        name=", ".join(names),
        dependent=traffic.dependent,
        summed=any(part.workload.summed for part in parts),
        omitted=[omission for part in parts for omission in part.workload.omitted],
    )
    common = iterations.pop() if len(iterations) == 1 else None
    return LoadedTraffic(workload, tuple(traffic.comms), traffic.include, common)


def _read_application(comm: str, traffic: TrafficOptions) -> LoadedTraffic:
    """Return the traffic of one --comm, divided by its number of iterations."""
    workload, known = read_traffic(comm, traffic.include, **traffic.reader_arguments)
    iterations = known if traffic.iterations is None else traffic.iterations
    workload = divide_by_iterations(workload, iterations)
    if traffic.grid is not None:
        grid = read_sizes(traffic.grid.strip())
        if grid is None:
            expected = "sizes such as 8x8x8"
            raise InputError("bad task grid", found=traffic.grid, expected=expected)
        workload = replace(workload, phases=[p.renamed(p.name, grid) for p in workload])
    return LoadedTraffic(workload, (comm,), traffic.include, iterations)


def divide_by_iterations(workload: Workload, iterations: float | None) -> Workload:
    """Divide traffic by the number of iterations that it covers, if known."""
    if iterations is None or iterations == 1:
        return workload
    if not math.isfinite(iterations):
        raise InputError("bad --iterations", found=iterations, expected="a finite number")
    return replace(workload, phases=[phase.scaled(1 / iterations) for phase in workload])


def format_graph(facts: Mapping[str, Any]) -> str:
    """Return the numbers of tasks, edges, bytes and messages as text."""
    counts = [counted(round(facts[key]), key[:-1]) for key in ("tasks", "edges", "messages")]
    return ", ".join([*counts[:2], nbytes(facts["bytes"]), counts[2]])


def read_time(text: str, name: str) -> float:
    """Convert text to a time in seconds; error messages call it ``name``."""
    try:
        value = read_seconds(text)
    except InputError as error:
        raise error.replace(f"bad {name}") from None
    if text[-1:].isdigit() and value >= _LONG_TIME:
        expected = f"{text}us, {text}ns or {text}s"
        raise InputError(f"{name} without a unit", found=text, expected=expected)
    return value


def change_network(torus: Torus, changes: Sequence[str], unused: Collection[str] = ()) -> Torus:
    """Return the torus with the constants in ``changes``, each as ``KEY=VALUE``.

    A key is a field of `Network`, or belongs to the torus, as in ``routing_order=1,0``,
    ``zones=0,1/2`` (groups of dimensions, or ``bluegene_q``), ``tie_break=random``,
    ``bandwidth=1e9`` and ``bandwidth=1e9,2e9``. The words ``unknown`` and ``known`` state whether
    the network's rules are known. Keys in ``unused`` have no effect on flows and raise an error.
    """
    keys = [field.name for field in fields(tc.Network)] + list(_TORUS_KEYS)
    known = [key for key in keys if key not in unused]
    rules = ",".join(tc.Network().unknown_rules)
    words = {"unknown": f"unknown_rules={rules}", "known": "unknown_rules=none"}
    texts: dict[str, str] = {}
    for change in changes:
        key, text = read_pair(words.get(change.strip(), change), "--network")
        if key in unused:
            fault = "--network key that has no effect without packets"
            expected = f"one of {', '.join(known)}, or 'toruscast simulate'"
            raise InputError(fault, found=key, expected=expected)
        if key not in known:
            expected = closest(key, known, ", ".join(known))
            raise InputError("unknown --network key", found=key, expected=expected)
        if key in texts:
            raise InputError("--network key given twice", found=change, expected="one value")
        texts[key] = text
    try:
        values = {key: _parse_constant(key, text) for key, text in texts.items()}
        torus_values = {key: values.pop(key) for key in _TORUS_KEYS if key in values}
        torus = torus.with_network(**values)
        torus = replace(torus, network=torus.network.with_known(*torus_values))
        return replace(torus, **torus_values)  # type: ignore[arg-type]
    except InputError as error:
        raise error.replace(f"--network: {error.message}") from None


def _parse_constant(key: str, text: str) -> object:
    """Return the value of a network constant: a time, size, number, tuple or word."""
    if key in _TIME_KEYS:
        return read_time(text, key)
    if key == "unknown_rules":
        return () if text == "none" else tuple(text.split(","))
    if key == "routing_order" or (key == "zones" and not text.isidentifier()):
        parts = text.split("/") if key == "zones" else [text]
        zones = [[number.strip() for number in part.split(",")] for part in parts]
        if not all(re.fullmatch("[0-9]{1,2}", number) for zone in zones for number in zone):
            expected = "numbers of dimensions such as 1,0"
            raise InputError(f"bad {key}", found=repr(text), expected=expected)
        groups = tuple(tuple(map(int, zone)) for zone in zones)
        return groups if key == "zones" else groups[0]
    if key == "bandwidth" and "," in text:
        return tuple(_parse_constant(key, part) for part in text.split(","))
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return read_bytes(text.removesuffix("/s")) if key in _SIZE_KEYS else float(text)
    with suppress(ValueError):
        return float(text)
    return text


def restrict_nodes(torus: Torus, path: str) -> Torus:
    """Return the torus reduced to the nodes that a file lists.

    Each line of the file is the number or the coordinates of a node. The file may also be a CSV
    with a column ``node``, or a table of hosts.
    """
    text = format_source.read_text(path)
    lines = list(text.lines())
    header = format_source.split_cells(lines[0][1])[1] if lines else []
    if "host" in header:
        nodes = {*tc.read_hosts(path, torus).node.tolist()}
    else:
        column = header.index("node") if "node" in header else None
        nodes = set()
        for number, line in lines[column is not None :]:
            words = re.split(r"[,;\s]+", line.strip(" ()\t"))
            if column is not None:
                words = format_source.split_cells(line)[1][column : column + 1]
            node = _parse_node(torus, words)
            if node is None:
                expected = f"0 to {torus.n_nodes - 1} or {torus.ndim} coordinates, one node per "
                expected += "line, or a CSV with a column node"
                raise text.fault("bad node", number, line, expected)
            if node in nodes:
                raise text.fault("duplicate node", number, node, "each node once")
            nodes.add(node)
    if not nodes:
        raise text.fault("allocation without a node")
    return torus.without(nodes=sorted(set(range(torus.n_nodes)) - nodes))


def _parse_node(torus: Torus, words: Sequence[str]) -> int | None:
    """Return the node with this number or these coordinates, or None if there is none."""
    with suppress(InputError):
        if all(re.fullmatch("[0-9]{1,9}", word) for word in words):
            numbers = [int(word) for word in words]
            is_node = len(numbers) == 1 and numbers[0] < torus.n_nodes
            return numbers[0] if is_node else int(torus.node(numbers))
    return None


def change_links(torus: Torus, path: str) -> Torus:
    """Return the torus with the link bandwidths in a CSV file; 0 removes a link."""
    text = format_source.read_text(path)
    names = ["link", "bandwidth"]
    _, rows = tables.read_words(text, text.lines(), lambda header: header == names, names)
    bandwidths: dict[int, float] = {}
    for number, (label, value) in rows:
        with text.locate_errors(number):
            link = torus.read_link(label)
            try:
                bandwidth = float(value)
            except ValueError:
                expected = "bytes per second"
                raise InputError("bad bandwidth", found=value, expected=expected) from None
            if link in bandwidths:
                raise InputError("duplicate link", found=label, expected="each link once")
            # Check each link separately, because then an error can state its line.
            torus.with_links({link: bandwidth}) if bandwidth else torus.without(links=[link])
            bandwidths[link] = bandwidth
    slow = {link: bandwidth for link, bandwidth in bandwidths.items() if bandwidth}
    return torus.with_links(slow).without(links=sorted(bandwidths.keys() - slow))


def load_torus(options: TorusOptions, unused: Collection[str] = ()) -> Torus:
    """Read a torus and apply --network, which must not set keys in ``unused``."""
    if options.torus is None:
        raise click.UsageError("missing --torus")
    torus = tc.torus(options.torus)
    if torus.twist and "twisted" not in options.torus.lower():
        sizes = "x".join(map(str, torus.shape))
        name = f"{torus.name}:{sizes}"
        # Print this even with --quiet, because not all machines of this kind are twisted.
        click.echo(
            f"toruscast: {name} is a twisted torus; {name}:untwisted is a plain one", err=True
        )
    torus = change_network(torus, options.changes, unused)
    if not isinstance(options, AllocationOptions):
        return torus
    if options.allocation is not None:
        torus = restrict_nodes(torus, options.allocation)
    return torus if options.slow_links is None else change_links(torus, options.slow_links)


@dataclass(frozen=True)
class LoadedProblem:
    """A mapping problem with its loaded traffic, and the values of --network."""

    application: LoadedTraffic
    problem: MappingProblem
    changes: Sequence[str] = ()

    def describe(self) -> dict[str, Any]:
        """Return the entries of JSON output."""
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

    def summary(self, mappings: Sequence[TaskMapping] = ()) -> str:
        """Return a summary in one line, including the number of candidate mappings, if any."""
        line = f"{self.application.summary()}; on torus {self.problem.torus}"
        if self.changes:
            line += f"; {', '.join(map(printable, self.changes))}"
        if mappings:
            line += f"; {counted(len(mappings), 'candidate mapping')}, {Occupancy(mappings)}"
        return line


def load_problem(
    traffic: TrafficOptions,
    routing: Routing,
    unused: Collection[str] = (),
    *,
    simulated: bool = True,
) -> LoadedProblem:
    """Read the traffic and the torus; --network must not set keys in ``unused``."""
    application = load_application(traffic, simulated=simulated)
    torus = load_torus(traffic, unused)
    problem = tc.MappingProblem(application.workload, torus, routing)
    return LoadedProblem(application, problem, traffic.changes)


class Occupancy:
    """Ranges, over several mappings, of the tasks per used node and the number of used nodes.

    `add` counts mappings from a stream without storing them.
    """

    def __init__(self, mappings: Sequence[TaskMapping] = ()) -> None:
        self.n_mappings = self.n_nodes = 0
        self.n_tasks: set[int] = set()
        self.n_used: set[int] = set()
        for mapping in mappings:
            self.add(mapping)

    def add(self, mapping: TaskMapping) -> TaskMapping:
        """Count a mapping and return it."""
        used = mapping.occupancy[mapping.occupancy > 0]
        self.n_mappings += 1
        self.n_nodes = mapping.n_nodes
        self.n_tasks |= {int(used.min()), int(used.max())}
        self.n_used.add(used.size)
        return mapping

    def __str__(self) -> str:
        plural = "" if self.n_tasks == {1} else "s"
        text = f"{spanned(self.n_tasks)} task{plural} a node"
        if self.n_used == {self.n_nodes}:
            return text
        return f"{text} on {spanned(self.n_used)} of {counted(self.n_nodes, 'node')}"
