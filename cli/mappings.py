"""Read or make the mappings of a command, and write the best."""

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
from typing import TYPE_CHECKING, ClassVar

import toruscast as tc
from toruscast._slow import numpy as np
from toruscast.errors import InputError, InputWarning
from toruscast.files import at_file, check_target
from toruscast.text import closest, joined

from .options import CandidateOptions, MappingFileOptions, is_default, option, refuse_options
from .output import Output, check_output_folder
from .problem import path_exists
from .progress import show_progress
from .slow import (
    format_registry,
    format_source,
    permute,
    readers,
    search_candidates,
    strategy_registry,
    task_mapping,
)

if TYPE_CHECKING:
    from toruscast.mapping import MappingProblem, TaskMapping, Torus

_FUGAKU = "tofu_d"
# Coordinates X Y Z a b c of a Fugaku node, with or without brackets and commas.
_COORDINATES = re.compile(r"[(),;\s]*" + r"[(),;\s]+".join(["([0-9]{1,6})"] * 6) + r"[(),;\s]*")


def load_mappings(
    problem: MappingProblem, candidates: CandidateOptions, seed: int
) -> list[TaskMapping]:
    """Read or make the candidate mappings."""
    text = "Reading mappings" if candidates.mappings else "Making mappings"
    loaded: list[TaskMapping] = []
    with show_progress(text) as progress:
        mappings, n = stream_mappings(problem, candidates, seed)
        for mapping in mappings:
            loaded.append(mapping)
            progress("mappings", len(loaded), n)
    return loaded


def stream_mappings(
    problem: MappingProblem, candidates: CandidateOptions, seed: int
) -> tuple[Iterator[TaskMapping], int | None]:
    """Return an iterator over the mappings that `load_mappings` reads, and their number if known.

    The mappings are stored only if tasks are fixed, because fixing tasks may create duplicates.
    """
    n, capacity, fixed = candidates.candidates, candidates.tasks_per_node, candidates.fixed_nodes
    if candidates.mappings:
        files = [readers.mapping_files(path) for path in candidates.mappings]
        n_files = None if None in files else sum(map(len, filter(None, files)))
        return stream_files(problem, candidates.mappings, candidates, fixed), n_files
    mappings: Iterable[TaskMapping]
    if isinstance(n, str):
        mappings = make_rank_orders(problem, capacity)
        n = len(mappings)
    else:
        mappings, n = search_candidates.draw_candidates(problem, n, seed, capacity)
    if fixed:
        mappings = fix_tasks(mappings, problem.torus, fixed)
        n = len(mappings)
    return iter(mappings), n


def stream_files(
    problem: MappingProblem,
    paths: Sequence[str],
    options: MappingFileOptions,
    fixed: Mapping[int, int] = MappingProxyType({}),
) -> Iterator[TaskMapping]:
    """Yield the mappings in files and folders, each checked with `check_mapping`."""
    arguments = options.reader_arguments
    form = arguments.pop("format")
    reader_options = readers.mapping_options(problem.torus, n_tasks=problem.n_tasks, **arguments)
    mappings = readers.each_mapping(paths, reader_options, form)
    return (check_mapping(problem, mapping, file, fixed) for file, mapping in mappings)


def load_mapping(
    problem: MappingProblem, name: str, options: MappingFileOptions, seed: int
) -> TaskMapping:
    """Read a mapping from a file, or make it by a strategy or by a rank order of the machine."""
    torus, capacity, fixed = problem.torus, options.tasks_per_node, options.fixed_nodes
    is_strategy = name.partition("@")[0].partition("-")[0] in tc.strategies.STRATEGIES
    if path_exists(name) and not (is_strategy and Path(name).is_dir()):
        mapping = tc.read_mapping(name, torus, n_tasks=problem.n_tasks, **options.reader_arguments)
        return check_mapping(problem, mapping, name, fixed)
    if permute.parse_rank_order(name, torus):
        mapping = permute.map_ranks(name, torus, problem.n_tasks, capacity)
    elif not is_strategy:
        known = tc.strategies.names()
        expected = f"a file or a name such as {closest(name, known, ', '.join(known))}"
        raise InputError("neither a file nor a mapping strategy", found=name, expected=expected)
    else:
        if remark := permute.explain_letters(name, torus):
            warnings.warn(remark, InputWarning, stacklevel=2)
        with show_progress("Making the mapping"):
            mapping = tc.strategies.make(
                name, problem.workload, torus, tasks_per_node=capacity, seed=seed
            )
    return fix_tasks([mapping], torus, fixed)[0]


def check_seed(
    problem: MappingProblem, options: MappingFileOptions, *names: str, is_drawn: bool = False
) -> None:
    """Raise if a seed is given but nothing is drawn at random.

    ``names`` are the mappings that the command loads by name; without any, it calls
    `load_mappings`. ``is_drawn`` states whether the command also draws other random numbers.
    """
    if is_default("seed") or is_drawn:
        return
    if isinstance(options, CandidateOptions) and not names:
        is_drawn = not options.mappings and not isinstance(options.candidates, str)
    else:
        placement = tc.strategies.Placement(problem, options.tasks_per_node)
        is_drawn = any(
            strategy_registry.place_tasks(placement, name, seed=0)[1]
            for name in names
            if not path_exists(name) and not permute.parse_rank_order(name, problem.torus)
        )
    if not is_drawn:
        refuse_options("has no effect because nothing is drawn at random", "seed")


def check_mapping(
    problem: MappingProblem,
    mapping: TaskMapping,
    file: str | os.PathLike[str],
    fixed: Mapping[int, int] = MappingProxyType({}),
) -> TaskMapping:
    """Return the mapping if it fits the problem and keeps the fixed tasks on their nodes."""
    with at_file(file):
        mapping.check(problem.n_tasks, problem.torus)
        for task, node in fixed.items():
            if task >= mapping.n_tasks or mapping.node[task] != node:
                place = f"on node {mapping.node[task]}" if task < mapping.n_tasks else "missing"
                fault, expected = "moves a fixed task", f"on node {node} as --fix states"
                found = f"task {task} {place}"
                raise InputError(f"mapping {mapping.name} {fault}", found=found, expected=expected)
    return mapping


def fix_tasks(
    mappings: Iterable[TaskMapping], torus: Torus, fixed: Mapping[int, int]
) -> list[TaskMapping]:
    """Move the fixed tasks to their nodes, and drop mappings that become duplicates."""
    if not fixed:
        return list(mappings)
    unique: dict[bytes, TaskMapping] = {}
    for mapping in mappings:
        n = mapping.tasks_per_node
        changed = task_mapping.Allocation(torus, tasks_per_node=n, fixed=fixed).confine(mapping)
        unique.setdefault(changed.node.tobytes(), changed)
    return list(unique.values())


def make_rank_orders(problem: MappingProblem, tasks_per_node: int | None) -> list[TaskMapping]:
    """Return the mappings of all rank orders that the machine's launcher offers."""
    torus = problem.torus
    if torus.name == _FUGAKU and torus.ndim <= 3:
        # A Fugaku job has all nodes of the torus that it requests.
        orders = permute.job_mappings(problem.workload, torus.shape)[1].values()
        return [tc.TaskMapping(order.node, torus, name=order.name) for order in orders]
    names = ["".join(letters) for letters in permutations(f"{torus.axes}T")]
    if not permute.parse_rank_order(names[0], torus):
        expected = "Fugaku or a Blue Gene, or --candidates N"
        raise InputError("machine without rank orders", found=str(torus), expected=expected)
    return [permute.map_ranks(name, torus, problem.n_tasks, tasks_per_node) for name in names]


def load_scattered_job(
    problem: MappingProblem, path: str
) -> tuple[list[TaskMapping], dict[str, TaskMapping]]:
    """Return the rank orders for the nodes in a file: once to simulate, once for the launcher."""
    torus = problem.torus
    if torus.name != _FUGAKU:
        expected = "a job on Fugaku, such as --torus fugaku:4x6x8"
        raise InputError("--coords with another machine", found=str(torus), expected=expected)
    text = format_source.read_text(path)
    matches = text.matches(_COORDINATES, "coordinates", "six whole numbers, X Y Z a b c")
    rows = [[int(number) for number in match.groups()] for _, match in matches]
    coords = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    return permute.job_mappings(problem.workload, torus.shape, coords)


@dataclass(frozen=True)
class MappingFile:
    """File and format of the best mapping."""

    GROUP: ClassVar = "Output"
    out: str | None = option(
        "Write the fastest mapping. The suffix or --out-format selects the format of a launcher. "
        "search updates the file when it finds a faster mapping. rank writes all candidates if "
        "this is a FOLDER/.",
        "FILE",
    )
    out_format: str | None = option(
        "Format of the mapping, such as rank-order or rankfile, listed by 'toruscast formats'.  "
        "[default: by suffix]",
        "NAME",
        needs=("out", "script"),
        rare=True,
    )

    def check(self, hosts: str | None = None, *, may_be_folder: bool = False) -> None:
        """Raise, before the work starts, if the file cannot be written."""
        if self.out is None:
            return
        if may_be_folder and is_folder_path(self.out):
            check_format("", self.folder_format, hosts)
            check_output_folder(self.out)
            return
        check_format(self.out, self.out_format, hosts)
        check_target(self.out)

    @property
    def folder_format(self) -> str:
        """Format of the files in a folder."""
        return self.out_format or "bluegene"

    @property
    def suffix(self) -> str:
        """Suffix of the files in a folder."""
        return format_registry.find_dialect(self.folder_format, "mapping").file_suffix

    def write_all(
        self, mappings: Sequence[tc.TaskMapping], torus: tc.Torus, hosts: str | None, output: Output
    ) -> None:
        """Write mappings to the folder; warn if it also contains other mappings."""
        folder = self.out or ""
        tc.write_mappings(mappings, folder, self.folder_format, torus=torus, hosts=hosts)
        written = {f"{mapping.name}{self.suffix}" for mapping in mappings}
        files = {file.name for file in Path(folder).glob(f"[!.]*{self.suffix}")}
        if others := joined(sorted(files - written)):
            output.message(f"{folder} also contains mappings not written by this run: {others}")

    def write(self, mapping: tc.TaskMapping, torus: tc.Torus, hosts: str | None = None) -> str:
        """Write the mapping if a file is given; return a line about the file and how to use it."""
        if self.out is None:
            return ""
        advice = tc.write_mapping(mapping, self.out, self.out_format, torus=torus, hosts=hosts)
        return f"{mapping.name} is in {self.out}" + (f"; to use it: {advice}" if advice else "")

    @contextmanager
    def restore_on_error(self) -> Iterator[None]:
        """Restore the previous content of the file if the block fails."""
        path = None if self.out is None else Path(self.out)
        content = path.read_bytes() if path is not None and path.is_file() else None
        try:
            yield
        except BaseException:
            if path is not None and content is not None:
                path.write_bytes(content)
            elif path is not None:
                path.unlink(missing_ok=True)
            raise


def check_format(path: str, name: str | None, hosts: str | None) -> None:
    """Raise if the format of a mapping file is unknown, or if it needs a table of hosts."""
    dialect = format_registry.dialect_to_write("mapping", path, name)
    if dialect.on_hosts and hosts is None:
        expected = "add --hosts FILE, a CSV such as host,x,y,z"
        raise InputError(f"{dialect.name} needs host names", expected=expected)


def check_job(
    path: str | None,
    name: str | None,
    problem: MappingProblem,
    options: MappingFileOptions,
    given: Sequence[TaskMapping],
) -> None:
    """Raise, before the work starts, if the format cannot represent any mapping of the job.

    If mappings are ``given``, the format must be able to represent one of them.
    """
    if path is None or is_folder_path(path):
        return
    form, hosts = format_registry.dialect_to_write("mapping", path, name).name, options.hosts
    if not given:
        capacity = tc.strategies.Placement(problem, options.tasks_per_node).capacity
        readers.check_job(form, problem, hosts, capacity)
    fault = None
    with TemporaryDirectory() as folder:
        for mapping in given:
            try:
                tc.write_mapping(mapping, f"{folder}/a", form, torus=problem.torus, hosts=hosts)
                return
            except InputError as error:
                fault = error
    if fault is not None:
        raise fault


def is_folder_path(path: str) -> bool:
    """Whether a path is an existing folder or ends in "/"."""
    # Unlike Path.is_dir, this is False for text that cannot be a path.
    return path.endswith("/") or os.path.isdir(path)  # noqa: PTH112
