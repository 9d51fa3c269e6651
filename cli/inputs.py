"""From the words of the command line to graphs, tori and mappings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .graph_files import is_file, read_traffic
from .names import closest
from .network import change_network
from .places import change_links, check_fixed, only_nodes, put, read_fixed
from .progress import working
from .records import Candidates, Host, Placing, Traffic

if TYPE_CHECKING:
    from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload

DEFAULT_CANDIDATES = 84


@dataclass(frozen=True)
class Application:
    """A communication graph, for one iteration, and how it came about."""

    comm: CommGraph
    source: str
    traffic: str
    iterations: float | None
    """Application steps by which the graph was divided; None if nobody said."""
    workload: Workload | None = None
    """Its phases, where a file tells them apart."""

    def describe(self) -> dict[str, object]:
        """Return what JSON output says about it."""
        return {
            "name": self.comm.name,
            "source": self.source,
            "tasks": self.comm.n_tasks,
            "edges": self.comm.n_edges,
            "bytes": float(self.comm.nbytes.sum()),
            "messages": float(self.comm.n_messages.sum()),
            "traffic": self.traffic,
            "iterations": self.iterations,
        }


def load_application(traffic: Traffic) -> Application:
    """Read a graph from a file or a shipped dataset and divide it by the iterations.

    Raises
    ------
    InputError
        If the text names neither, the file is not valid, or there is nothing in it to send.
    """
    application = _read_application(traffic.comms[0], traffic)
    check_any(float(application.comm.n_messages.sum()), traffic.comms[0])
    return application


def check_any(n_messages: float, file: str) -> None:
    """Raise, naming the file, unless there is a message in it."""
    from toruscast.errors import InputError

    if not n_messages:
        raise InputError("communication graph without a message", file=file)


def _read_application(comm: str, traffic: Traffic) -> Application:
    """The graph, whether or not there is something in it to send."""
    from toruscast.mapping import Workload

    read, known = read_traffic(comm, traffic.include, **traffic.how)
    iterations = known if traffic.iterations is None else traffic.iterations
    phases = [per_iteration(phase, iterations) for phase in read]
    if traffic.grid is not None:
        phases = [phase.renamed(phase.name, task_grid(traffic.grid)) for phase in phases]
    workload = Workload(phases, read.name, read.dependent)
    return Application(workload.total, comm, traffic.include, iterations, workload)


def per_iteration(graph: CommGraph, iterations: float | None) -> CommGraph:
    """Divide a graph by the iterations that it was captured over.

    Raises
    ------
    InputError
        If that is no finite number.
    """
    factor = of_an_iteration(iterations)
    return graph if factor == 1 else graph.scaled(factor)


def of_an_iteration(iterations: float | None) -> float:
    """Return the part of a capture that is one iteration.

    Raises
    ------
    InputError
        If the iterations are no finite number.
    """
    from toruscast.errors import InputError

    if iterations is None:
        return 1.0
    if not math.isfinite(iterations):
        raise InputError("bad --iterations", found=iterations, expected="a finite number")
    return 1 / iterations


def check_sends(traffic: Workload | CommGraph, file: str) -> None:
    """Raise, naming the file, unless a simulation has something to send."""
    from toruscast.errors import InputError
    from toruscast.mapping import as_workload

    phases = as_workload(traffic)
    if not any(phase.whole_messages.any() for phase in phases):
        most = max(float(phase.n_messages.max(initial=0.0)) for phase in phases)
        raise InputError(
            "at most half a message on every edge: nothing to send",
            file=file,
            found=f"{most:.2g} at most",
            expected="one in each of the --iterations; a list of edges without a fourth column has "
            "one in all",
        )


def load_phases(traffic: Traffic) -> tuple[Application, Workload]:
    """Read the graphs of the phases; return what they add up to, too.

    Of several, some may have nothing to send.

    Raises
    ------
    InputError
        If one of them cannot be read, a single one has nothing to send, or they differ in their
        number of tasks.
    """
    from toruscast.errors import InputError
    from toruscast.mapping import Workload

    if traffic.collective is not None:
        return _load_collective(traffic)
    if traffic.tasks is not None:
        raise click.UsageError("--tasks goes with --collective")
    if not traffic.comms:
        raise click.UsageError("missing --comm, or --collective")
    if traffic.dependent and len(traffic.comms) < 2:
        raise click.UsageError("--dependent needs several --comm, a round each")
    if len(traffic.comms) == 1:
        parts = [load_application(traffic)]
    else:
        parts = [_read_application(comm, traffic) for comm in traffic.comms]
    for part in parts[1:]:
        if part.comm.n_tasks != parts[0].comm.n_tasks:
            found = " and ".join(f"{p.comm.n_tasks} in {p.source}" for p in (parts[0], part))
            raise InputError(
                "phases differ in their number of tasks",
                found=found,
                expected="the same, which the first line of a file may tell (in CSV: # n_tasks N)",
            )
    names = list(dict.fromkeys(part.comm.name for part in parts))
    workload = Workload([part.comm for part in parts], ", ".join(names), traffic.dependent)
    if len(parts) == 1:
        return parts[0], parts[0].workload or workload
    divisors = {part.iterations for part in parts}
    common = divisors.pop() if len(divisors) == 1 else None
    return Application(workload.total, ", ".join(traffic.comms), traffic.include, common), workload


def _load_collective(traffic: Traffic) -> tuple[Application, Workload]:
    """The rounds of a collective, in place of graphs."""
    from toruscast.mapping import parse_torus

    from .collective import load_collective

    if traffic.comms:
        raise click.UsageError("give --comm or --collective, not both")
    text = traffic.collective or ""
    workload = load_collective(traffic, parse_torus(traffic.torus or "")).workload()
    return Application(workload.total, text, traffic.include, None), workload


def load_torus(traffic: Host, unused: Collection[str] = ()) -> Torus:
    """Read a torus or a machine, and change its network; what is ``unused`` must not be set."""
    from toruscast.mapping import parse_torus

    if traffic.torus is None:
        raise click.UsageError("--comm needs --torus")
    torus = parse_torus(traffic.torus)
    if torus.twist and "twisted" not in traffic.torus.lower():
        sizes = "x".join(map(str, torus.shape))
        click.echo(
            f"toruscast: {torus.name}:{sizes} is a twisted torus; "
            f"{torus.name}:{sizes}:untwisted is a plain one",
            err=True,
        )
    torus = change_network(torus, traffic.changes, unused)
    if traffic.allocation is not None:
        torus = only_nodes(torus, traffic.allocation)
    return torus if traffic.slow_links is None else change_links(torus, traffic.slow_links)


def load_mappings(
    comm: CommGraph, torus: Torus, candidates: Candidates, seed: int
) -> list[TaskMapping]:
    """Read mappings, or make a sample of them."""
    made = candidates.mappings is None
    loaded: list[TaskMapping] = []
    with working("Making mappings" if made else "Reading mappings") as progress:
        found, n = stream_mappings(comm, torus, candidates, seed)
        for mapping in found:
            loaded.append(mapping)
            progress(len(loaded), n)
    return loaded


def stream_mappings(
    comm: CommGraph,
    torus: Torus,
    candidates: Candidates,
    seed: int,
    kinds: Sequence[str] | None = None,
) -> tuple[Iterator[TaskMapping], int | None]:
    """Give the mappings of `load_mappings` one after the other, and how many; None if not known.

    Very many are not held, but where tasks are bound, which may make some of them alike. ``kinds``
    are the families of strategies that they are drawn from.
    """
    mappings, n = candidates.mappings, candidates.candidates
    capacity, fixed = candidates.tasks_per_node, read_fixed(candidates.fixed)
    if mappings is not None and n is not None:
        raise click.UsageError("--mappings and --candidates exclude each other")
    if mappings is None:
        from toruscast.mapping import strategies
        from toruscast.mapping.strategies.sampling import most_mappings

        if n is None:
            n = most_mappings(comm, torus, capacity, DEFAULT_CANDIDATES)
        sample = strategies.iter_sample(
            comm, torus, n=n, seed=seed, tasks_per_node=capacity, kinds=kinds
        )
        if not fixed:
            return sample, n
        confined = put(list(sample), torus, fixed)
        return iter(confined), len(confined)
    from toruscast.mapping.formats.mapping import iter_mappings, mapping_files

    files = mapping_files(mappings)
    found = iter_mappings(mappings, torus, n_tasks=comm.n_tasks, **candidates.how)
    checked = _checked(found, mappings, comm, torus, fixed)
    return checked, None if files is None else len(files)


def _checked(
    found: Iterable[TaskMapping],
    file: str,
    comm: CommGraph,
    torus: Torus,
    fixed: Mapping[int, int],
) -> Iterator[TaskMapping]:
    """Give mappings of a file or folder, each after a look at whether it fits."""
    for mapping in found:
        check_mappings([mapping], file, comm, torus)
        check_fixed([mapping], file, fixed)
        yield mapping


def load_mapping(
    comm: CommGraph, torus: Torus, mapping: str, placing: Placing, seed: int
) -> TaskMapping:
    """Read one mapping from a file, or make one by a strategy's name or the machine's own word.

    Raises
    ------
    InputError
        If the text names neither, or the mapping does not fit the graph and the torus.
    """
    from toruscast.errors import InputError, InputWarning
    from toruscast.mapping import strategies
    from toruscast.mapping.formats import read_mapping
    from toruscast.mapping.order_words import is_order_word, ordered, remark

    fixed = read_fixed(placing.fixed)
    is_known = mapping.partition("@")[0].partition("-")[0] in strategies.STRATEGIES
    if is_file(mapping) and not (is_known and Path(mapping).is_dir()):
        chosen = read_mapping(mapping, torus, n_tasks=comm.n_tasks, **placing.how)
        check_mappings([chosen], mapping, comm, torus)
        check_fixed([chosen], mapping, fixed)
        return chosen
    if is_order_word(mapping, torus):
        found = ordered(mapping, torus, comm.n_tasks, placing.tasks_per_node)
        return put([found], torus, fixed)[0]
    if not is_known:
        known = strategies.examples()
        raise InputError(
            "neither a file nor a mapping strategy",
            found=mapping,
            expected=f"a file or a name such as {closest(mapping, known, ', '.join(known))}",
        )
    if said := remark(mapping, torus):
        warnings.warn(said, InputWarning, stacklevel=2)
    capacity = placing.tasks_per_node
    with working("Making the mapping"):
        made = strategies.make(mapping, comm, torus, tasks_per_node=capacity, seed=seed)
    return put([made], torus, fixed)[0]


def check_mappings(
    mappings: Sequence[TaskMapping], file: str, comm: CommGraph, torus: Torus
) -> None:
    """Raise, naming the file, unless every mapping fits."""
    from toruscast.errors import InputError

    try:
        for mapping in mappings:
            mapping.check(comm.n_tasks, torus)
    except InputError as error:
        raise error.replace(file=file) from None


def task_grid(text: str) -> tuple[int, ...]:
    """Return the sizes that a text tells."""
    from toruscast.errors import InputError
    from toruscast.validation import read_sizes

    sizes = read_sizes(text.strip())
    if sizes is None:
        raise InputError("bad task grid", found=text, expected="sizes such as 8x8x8")
    return sizes
