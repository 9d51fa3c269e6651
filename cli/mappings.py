"""From words to mappings, and mappings to files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import toruscast as tc
from toruscast.errors import InputError, InputWarning
from toruscast.files import check_target
from toruscast.text import closest

from .options import Candidates, Placing
from .progress import working
from .slow import allocation, launcher_orders, rank_orders, readers, registry, sampling
from .traffic import is_file

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping, Torus, Workload
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from .options import option
from .output import Output, check_folder

DEFAULT_CANDIDATES = 84


def load_mappings(
    workload: Workload, torus: Torus, candidates: Candidates, seed: int
) -> list[TaskMapping]:
    """Read mappings, or make a sample of them."""
    made = candidates.mappings is None
    loaded: list[TaskMapping] = []
    with working("Making mappings" if made else "Reading mappings") as progress:
        found, n = stream_mappings(workload, torus, candidates, seed)
        for mapping in found:
            loaded.append(mapping)
            progress(len(loaded), n)
    return loaded


def stream_mappings(
    workload: Workload, torus: Torus, candidates: Candidates, seed: int
) -> tuple[Iterator[TaskMapping], int | None]:
    """Give the mappings of `load_mappings` one after the other, and how many; None if not known.

    Very many are not held, but where tasks are bound, which may make some of them alike.
    """
    mappings, n = candidates.mappings, candidates.candidates
    capacity, fixed = candidates.tasks_per_node, read_fixed(candidates.fixed)
    if mappings is not None and n is not None:
        raise click.UsageError("--mappings and --candidates exclude each other")
    if isinstance(n, str):
        orders = put(launcher_orders.order_mappings(workload, torus, capacity), torus, fixed)
        return iter(orders), len(orders)
    if mappings is None:
        placement = tc.strategies.Placement(tc.MappingProblem(workload, torus), capacity)
        if n is None:
            n = int(min(DEFAULT_CANDIDATES, sampling.count_left(placement, ())))
        sample = sampling.draw_mappings(placement, n, seed)
        if not fixed:
            return sample, n
        confined = put(list(sample), torus, fixed)
        return iter(confined), len(confined)
    files = readers.mapping_files(mappings)
    n_tasks = workload.n_tasks
    how = candidates.how
    form = how.pop("format")
    options = readers.mapping_options(torus, n_tasks=n_tasks, **how)
    found = readers.each_mapping(mappings, options, form)
    checked = _checked(found, mappings, n_tasks, torus, fixed)
    return checked, None if files is None else len(files)


def _checked(
    found: Iterable[TaskMapping],
    file: str,
    n_tasks: int,
    torus: Torus,
    fixed: Mapping[int, int],
) -> Iterator[TaskMapping]:
    """Give mappings of a file or folder, each after a look at whether it fits."""
    for mapping in found:
        check_mappings([mapping], file, n_tasks, torus)
        check_fixed([mapping], file, fixed)
        yield mapping


def load_mapping(
    workload: Workload, torus: Torus, mapping: str, placing: Placing, seed: int
) -> TaskMapping:
    """Read one mapping from a file, or make one by a strategy's name or the machine's own word."""
    fixed = read_fixed(placing.fixed)
    is_known = mapping.partition("@")[0].partition("-")[0] in tc.strategies.STRATEGIES
    if is_file(mapping) and not (is_known and Path(mapping).is_dir()):
        chosen = tc.read_mapping(mapping, torus, n_tasks=workload.n_tasks, **placing.how)
        check_mappings([chosen], mapping, workload.n_tasks, torus)
        check_fixed([chosen], mapping, fixed)
        return chosen
    if rank_orders.letters_of(mapping, torus):
        found = rank_orders.ordered(mapping, torus, workload.n_tasks, placing.tasks_per_node)
        return put([found], torus, fixed)[0]
    if not is_known:
        known = tc.strategies.examples()
        raise InputError(
            "neither a file nor a mapping strategy",
            found=mapping,
            expected=f"a file or a name such as {closest(mapping, known, ', '.join(known))}",
        )
    if said := rank_orders.remark(mapping, torus):
        warnings.warn(said, InputWarning, stacklevel=2)
    capacity = placing.tasks_per_node
    with working("Making the mapping"):
        made = tc.strategies.make(mapping, workload, torus, tasks_per_node=capacity, seed=seed)
    return put([made], torus, fixed)[0]


def check_mappings(mappings: Sequence[TaskMapping], file: str, n_tasks: int, torus: Torus) -> None:
    """Raise, naming the file, unless every mapping fits."""
    try:
        for mapping in mappings:
            mapping.check(n_tasks, torus)
    except InputError as error:
        raise error.replace(file=file) from None


def read_fixed(words: Sequence[str]) -> dict[int, int]:
    """Return the node of each task in words such as ``0=17``."""
    fixed: dict[int, int] = {}
    for word in words:
        match = re.fullmatch("([0-9]{1,9})=([0-9]{1,9})", word.strip())
        if match is None:
            raise InputError("bad --fix", found=word, expected="TASK=NODE, such as 0=17")
        task, node = map(int, match.groups())
        if fixed.setdefault(task, node) != node:
            raise InputError(
                "task bound to two nodes", found=word, expected=f"{task}={fixed[task]}"
            )
    return fixed


def put(
    mappings: Sequence[TaskMapping], torus: Torus, fixed: Mapping[int, int]
) -> list[TaskMapping]:
    """Return mappings of our own making with tasks put where they are bound, each once."""
    if not fixed:
        return list(mappings)
    confined = [
        allocation.Allocation(torus, tasks_per_node=mapping.tasks_per_node, fixed=fixed).confine(
            mapping
        )
        for mapping in mappings
    ]
    different = {mapping.node.tobytes(): mapping for mapping in reversed(confined)}
    return list(different.values())[::-1]


def check_fixed(mappings: Sequence[TaskMapping], file: str, fixed: Mapping[int, int]) -> None:
    """Raise, naming the file, if a mapping has a bound task elsewhere."""
    for mapping in mappings:
        for task, node in fixed.items():
            if task >= mapping.n_tasks or mapping.node[task] != node:
                there = f"on node {mapping.node[task]}" if task < mapping.n_tasks else "nowhere"
                raise InputError(
                    f"mapping {mapping.name} has a bound task elsewhere",
                    file=file,
                    found=f"task {task} {there}",
                    expected=f"on node {node}, as --fix has it",
                )


_NAMED = 3
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
    out_format: str | None = option(OUT_FORMAT, "NAME")

    def check(self, hosts: str | None = None, *, folder: bool = False) -> None:
        """Raise early what writing would raise after the work."""
        if self.out is None:
            if self.out_format is not None:
                raise click.UsageError("--out-format needs --out")
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
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        output.message(
            f"{folder} also holds mappings that this run has not written: "
            f"{', '.join(others[:_NAMED])}{more}"
        )
