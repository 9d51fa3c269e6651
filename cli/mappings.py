"""From words to mappings, and mappings to files."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import click

import toruscast as tc
from toruscast._slow import numpy as np
from toruscast.errors import InputError, InputWarning
from toruscast.files import at_file, check_target
from toruscast.text import closest, joined

from .options import Candidates, Placing, is_default, option, refuse
from .output import Output, check_folder
from .problem import is_file
from .progress import working
from .slow import allocation, rank_orders, readers, registry, sampling, sources, strategy_names

if TYPE_CHECKING:
    from toruscast.mapping import MappingProblem, TaskMapping, Torus

DEFAULT_CANDIDATES = 84
_FUGAKU = "tofu_d"
# A node of Fugaku, X Y Z a b c, with or without brackets and commas.
_PLACE = re.compile(r"[(),;\s]*" + r"[(),;\s]+".join(["([0-9]{1,6})"] * 6) + r"[(),;\s]*")


def load_mappings(problem: MappingProblem, candidates: Candidates, seed: int) -> list[TaskMapping]:
    """Read mappings, or make a sample of them."""
    made = not candidates.mappings
    loaded: list[TaskMapping] = []
    with working("Making mappings" if made else "Reading mappings") as progress:
        found, n = stream_mappings(problem, candidates, seed)
        for mapping in found:
            loaded.append(mapping)
            progress(len(loaded), n)
    return loaded


def stream_mappings(
    problem: MappingProblem, candidates: Candidates, seed: int
) -> tuple[Iterator[TaskMapping], int | None]:
    """Give the mappings of `load_mappings` one after the other, and how many; None if not known.

    Very many are not held, but where tasks are bound, which may make some of them alike.
    """
    n, capacity, fixed = candidates.candidates, candidates.tasks_per_node, candidates.bound
    if candidates.mappings:
        files = [readers.mapping_files(path) for path in candidates.mappings]
        known = None if None in files else sum(map(len, filter(None, files)))
        return stream_files(problem, candidates.mappings, candidates, fixed), known
    made: Iterable[TaskMapping]
    if isinstance(n, str):
        made = order_mappings(problem, capacity)
        n = len(made)
    else:
        placement = tc.strategies.Placement(problem, capacity)
        if n is None:
            n = int(min(DEFAULT_CANDIDATES, sampling.count_remaining(placement, ())))
        made = sampling.draw_mappings(placement, n, seed)
    if fixed:
        made = confine(made, problem.torus, fixed)
        n = len(made)
    return iter(made), n


def stream_files(
    problem: MappingProblem,
    paths: Sequence[str],
    placing: Placing,
    fixed: Mapping[int, int] = MappingProxyType({}),
) -> Iterator[TaskMapping]:
    """Give the mappings of files and folders, each after a look at whether it fits."""
    how = placing.how
    form = how.pop("format")
    options = readers.mapping_options(problem.torus, n_tasks=problem.n_tasks, **how)
    found = readers.each_mapping(paths, options, form)
    return (check_mapping(problem, mapping, file, fixed) for file, mapping in found)


def load_mapping(problem: MappingProblem, mapping: str, placing: Placing, seed: int) -> TaskMapping:
    """Read one mapping from a file, or make one by a strategy's name or the machine's own word."""
    torus, capacity, fixed = problem.torus, placing.tasks_per_node, placing.bound
    is_known = mapping.partition("@")[0].partition("-")[0] in tc.strategies.STRATEGIES
    if is_file(mapping) and not (is_known and Path(mapping).is_dir()):
        chosen = tc.read_mapping(mapping, torus, n_tasks=problem.n_tasks, **placing.how)
        return check_mapping(problem, chosen, mapping, fixed)
    if rank_orders.parse_rank_order(mapping, torus):
        made = rank_orders.map_ranks(mapping, torus, problem.n_tasks, capacity)
    elif not is_known:
        known = tc.strategies.names()
        raise InputError(
            "neither a file nor a mapping strategy",
            found=mapping,
            expected=f"a file or a name such as {closest(mapping, known, ', '.join(known))}",
        )
    else:
        if said := rank_orders.explain_letters(mapping, torus):
            warnings.warn(said, InputWarning, stacklevel=2)
        with working("Making the mapping"):
            made = tc.strategies.make(
                mapping, problem.workload, torus, tasks_per_node=capacity, seed=seed
            )
    return confine([made], torus, fixed)[0]


def check_seed(
    problem: MappingProblem, placing: Placing, *named: str, others: bool = False
) -> None:
    """Raise if a seed was given and no draw depends on it.

    ``named`` are mappings of `load_mapping`; without any, candidates are drawn unless files or
    orders are ranked. ``others`` says whether the command draws more.
    """
    if is_default("seed") or others:
        return
    if isinstance(placing, Candidates) and not named:
        is_drawn = not placing.mappings and not isinstance(placing.candidates, str)
    else:
        placement = tc.strategies.Placement(problem, placing.tasks_per_node)
        is_drawn = any(
            strategy_names.place_tasks(placement, name, seed=0)[1]
            for name in named
            if not is_file(name) and not rank_orders.parse_rank_order(name, problem.torus)
        )
    if not is_drawn:
        refuse("where something is drawn at random", "seed")


def check_mapping(
    problem: MappingProblem,
    mapping: TaskMapping,
    file: str | os.PathLike[str],
    fixed: Mapping[int, int] = MappingProxyType({}),
) -> TaskMapping:
    """Return a mapping of a file; raise, naming the file, if it does not fit or moves a task."""
    with at_file(file):
        mapping.check(problem.n_tasks, problem.torus)
        for task, node in fixed.items():
            if task >= mapping.n_tasks or mapping.node[task] != node:
                there = f"on node {mapping.node[task]}" if task < mapping.n_tasks else "nowhere"
                raise InputError(
                    f"mapping {mapping.name} has a bound task elsewhere",
                    found=f"task {task} {there}",
                    expected=f"on node {node}, as --fix has it",
                )
    return mapping


def confine(
    mappings: Iterable[TaskMapping], torus: Torus, fixed: Mapping[int, int]
) -> list[TaskMapping]:
    """Return mappings of our own making with tasks put where they are bound, each once."""
    if not fixed:
        return list(mappings)
    confined: dict[bytes, TaskMapping] = {}
    for mapping in mappings:
        share = mapping.tasks_per_node
        ours = allocation.Allocation(torus, tasks_per_node=share, fixed=fixed).confine(mapping)
        confined.setdefault(ours.node.tobytes(), ours)
    return list(confined.values())


def order_mappings(problem: MappingProblem, tasks_per_node: int | None = None) -> list[TaskMapping]:
    """Return the orders of ranks that the launcher of a machine offers."""
    torus = problem.torus
    if torus.name == _FUGAKU and torus.ndim <= 3:
        # The nodes of a job are those of the torus that it asks for.
        found = rank_orders.job_mappings(problem.workload, torus.shape)[1].values()
        return [tc.TaskMapping(each.node, torus, name=each.name) for each in found]
    words = ["".join(letters) for letters in permutations(f"{torus.axes}T")]
    if not rank_orders.parse_rank_order(words[0], torus):
        expected = "Fugaku or a Blue Gene, or --candidates N"
        raise InputError("no launcher with words for orders", found=str(torus), expected=expected)
    return [rank_orders.map_ranks(word, torus, problem.n_tasks, tasks_per_node) for word in words]


def scattered_job(
    problem: MappingProblem, path: str
) -> tuple[list[TaskMapping], dict[str, TaskMapping]]:
    """Return the orders of a job whose nodes are those of a file, as `job_mappings` does."""
    torus = problem.torus
    if torus.name != _FUGAKU:
        expected = "a job on Fugaku, such as --torus fugaku:4x6x8"
        raise InputError("--coords of another machine", found=str(torus), expected=expected)
    text = sources.read_text(path)
    found = text.matches(_PLACE, "coordinates", "six whole numbers, X Y Z a b c")
    rows = [[int(word) for word in match.groups()] for _, match in found]
    coords = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    return rank_orders.job_mappings(problem.workload, torus.shape, coords)


OUT_FORMAT = (
    "Format of what is written, such as rank-order or rankfile; by its suffix if not given. "
    "'toruscast formats' lists all."
)


@dataclass(frozen=True)
class MappingFile:
    """Where the best mapping goes, and in which format."""

    GROUP: ClassVar = "Output"
    out: str | None = option(
        "Write the fastest mapping, with search from its start on, by its suffix or --out-format "
        "for a launcher; with rank all candidates to a FOLDER/.",
        "FILE",
    )
    out_format: str | None = option(OUT_FORMAT, "NAME", needs=("out", "script"))

    def check(self, hosts: str | None = None, *, folder: bool = False) -> None:
        """Raise early what writing would raise after the work."""
        if self.out is None:
            return
        if folder and is_folder(self.out):
            if self.out_format is not None:
                raise click.UsageError("a folder takes .map files: --out-format needs a file")
            check_folder(self.out)
            return
        check_format(self.out, self.out_format, hosts)
        check_target(self.out)

    def write(self, mapping: tc.TaskMapping, torus: tc.Torus, hosts: str | None = None) -> str:
        """Write a mapping where it is wanted; return a line that says where, and how to use it."""
        if self.out is None:
            return ""
        advice = tc.write_mapping(mapping, self.out, self.out_format, torus=torus, hosts=hosts)
        return f"{mapping.name} is in {self.out}" + (f"; to use it: {advice}" if advice else "")

    @contextmanager
    def only_if_done(self) -> Iterator[None]:
        """Put back what was in the file before, if the block that writes it fails."""
        path = None if self.out is None else Path(self.out)
        before = path.read_bytes() if path is not None and path.is_file() else None
        try:
            yield
        except BaseException:
            if path is not None and before is not None:
                path.write_bytes(before)
            elif path is not None:
                path.unlink(missing_ok=True)
            raise


def check_format(path: str, name: str | None, hosts: str | None) -> None:
    """Raise where no format to write is named, or it names hosts and no table of them is given."""
    chosen = registry.dialect_to_write("mapping", path, name)
    if chosen.on_hosts and hosts is None:
        expected = "add --hosts FILE, a CSV such as host,x,y,z"
        raise InputError(f"{chosen.name} needs host names", expected=expected)


def check_job(
    path: str | None, name: str | None, problem: MappingProblem, how: Placing, given: Sequence[Any]
) -> None:
    """Raise early where none of the mappings given can be written, or hardly any of the job's."""
    if path is None or is_folder(path):
        return
    form, fault = registry.dialect_to_write("mapping", path, name).name, None
    if not given:
        least = tc.strategies.Placement(problem, how.tasks_per_node).capacity
        readers.check_job(form, problem, how.hosts, least)
    with TemporaryDirectory() as folder:
        for mapping in given:
            try:
                tc.write_mapping(mapping, f"{folder}/a", form, torus=problem.torus, hosts=how.hosts)
                return
            except InputError as error:
                fault = error
    if fault is not None:
        raise fault


def is_folder(path: str) -> bool:
    """Whether mappings that go to ``path`` go into a folder: one that stands, or ends in "/"."""
    # Unlike that of Path, this says no of what can be no name.
    return path.endswith("/") or os.path.isdir(path)  # noqa: PTH112


def write_to_folder(
    mappings: Sequence[tc.TaskMapping], torus: tc.Torus, folder: str, output: Output
) -> None:
    """Write mappings into a folder, and say which others stay in it.

    Of an earlier run or the user's own: nobody can tell, but both are read along with these.
    """
    tc.write_mappings(mappings, folder, torus=torus)
    written = {f"{mapping.name}.map" for mapping in mappings}
    others = sorted({file.name for file in Path(folder).glob("[!.]*.map")} - written)
    if others:
        output.message(
            f"{folder} also holds mappings that this run has not written: {joined(others)}"
        )
