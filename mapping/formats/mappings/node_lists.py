"""Lists of node numbers: bare ones, those of SST-macro and of partitioners, several in a file.

Patterns: partitions of METIS 5.1 and KaHIP 3; `tests/test_configs/node_id_indexing.txt` of
SST-macro 14; what `gmap` of Scotch 7 and TreeMatch 1.0 write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...task_mapping import TaskMapping
from .._rows import Column, read_table
from ..dialect import Dialect
from ..foreign import are_numbers
from ..source import LINES, NUMBER, WHOLE, Source, Text, fields, label, whole
from .build import (
    MappingOptions,
    Target,
    first_fastest,
    first_tasks,
    mapping_of,
    rows_of,
    within,
    write_lines,
    write_rows,
)
from .rank_order import has_sign

RANGE = re.compile(r"\d+-\d+")
TREEMATCH = re.compile(r"\s*([A-Za-z][\w .-]*):\s++\d++(?>\s*+,\s*+\d++)*+\s*+,?\s*+")


def are_nodes(source: Source) -> bool:
    """Whether there is a whole number on each line, or all of them on one."""
    if not source.fields or not all(WHOLE.fullmatch(part) for part in source.fields):
        return False
    if len(source.lines) == 1:
        return len(source.fields) == 1 or _single_line(source)
    second = fields(source.lines[1][1])
    if len(source.fields) != 1 or len(second) != 1:
        return False
    # Below their number the nodes are those of a file with a count.
    return not fits_count(source) or _all_nodes(source)


def _single_line(source: Source) -> bool:
    """Whether the numbers of the only line are nodes rather than one place."""
    if source.torus is None:
        return len(source.fields) > 9
    if len(source.fields) not in (source.torus.ndim, source.torus.ndim + 1):
        return True
    return source.n_tasks == len(source.fields) > 1


def _all_nodes(source: Source) -> bool:
    """Whether the first number may be a node as well as the count of those below it."""
    parts = [part for _, line in source.lines for part in fields(line)]
    numbers = [int(part) for part in parts if len(part) < 12 and WHOLE.fullmatch(part)]
    if source.torus is None:
        return sorted(numbers) == list(range(len(numbers)))
    many = source.n_tasks is None or source.n_tasks == numbers[0] + 1
    return many and max(numbers, default=0) < source.torus.n_nodes


def read_nodes(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of nodes."""
    text = source.text
    number, line = text.first_line()
    parts = fields(line)
    if len(parts) > 1 and len(source.lines) == 1:
        return node_row(text, number, parts, options, label(text.file))
    table = read_table(text, [Column("node", whole=True)])
    return mapping_of(table, table.columns[0], options)


def node_row(
    text: Text, line: int, parts: list[str], options: MappingOptions, name: str
) -> TaskMapping:
    """Build a mapping whose nodes stand on one line."""
    most = options.torus.n_nodes - 1
    nodes = [whole(text, line, f"node of task {t}", part, most) for t, part in enumerate(parts)]
    nodes = nodes[: first_tasks(text.file, len(nodes), options)]
    with text.at(line):
        return TaskMapping(nodes, options.torus, tasks_per_node=options.capacity, name=name)


def are_named_lines(source: Source) -> bool:
    """Whether the lines hold a name and nodes."""
    # A name may hold a percent sign, which starts a comment elsewhere.
    lines = (line.partition("#")[0].strip() for line in source.raw_lines)
    name, *parts = _named(next(filter(None, lines), ""))
    if not parts or not WHOLE.fullmatch(parts[0]) or not _is_name(name):
        return False
    return not _in_brackets(name, parts)


def read_many(source: Source, options: MappingOptions) -> Iterator[TaskMapping]:
    """Give the mappings of lines ``name,node0,node1,...``, one at a time."""
    text = source.stream
    n_tasks = None
    seen: dict[str, int] = {}
    for number, line in text.lines("#"):
        name, *parts = _named(line)
        if name in seen:
            raise text.fault(
                "name of a mapping stands twice", number, f"{name}, also line {seen[name]}"
            )
        if not name:
            raise text.fault("mapping without a name", number, line, "name,node0,node1,...")
        n_tasks = len(parts) if n_tasks is None else n_tasks
        if len(parts) != n_tasks:
            raise text.fault(
                "mappings differ in their number of tasks", number, len(parts), n_tasks
            )
        seen[name] = number
        yield node_row(text, number, parts, options, name)
    if not seen:
        raise text.fault("file without data")


def _named(line: str) -> list[str]:
    return [part.strip() for part in line.split("," if "," in line else ";")]


def _is_name(word: str) -> bool:
    """Whether a word may name a mapping: no numbers, with semicolons or not, no range or label."""
    labelled = word.rpartition(":")
    label_and_number = bool(labelled[1]) and bool(WHOLE.fullmatch(labelled[2].strip()))
    bare = not word or all(map(NUMBER.fullmatch, word.split())) or are_numbers(word)
    ranged = bool(RANGE.fullmatch(word))
    return not (bare or "\t" in word or label_and_number or ranged)


def _in_brackets(name: str, parts: list[str]) -> bool:
    """Whether a line is rather a piece of JSON, XML or a call that was cut at its commas."""
    pairs = ("[]", "{}", "<>", "()")
    open_ones = any(name.count(pair[0]) != name.count(pair[1]) for pair in pairs)
    return open_ones and not all(WHOLE.fullmatch(part) for part in parts)


def write_nodes(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the node of each task."""
    write_rows(path, "", np.asarray(mapping.node, dtype=np.int64)[:, None], " ")


def fits_count(source: Source) -> bool:
    """Whether the first line holds the number of those below it."""
    if len(source.fields) != 1 or not WHOLE.fullmatch(source.fields[0]) or len(source.lines) < 2:
        return False
    if any(len(fields(line)) != 1 for _, line in source.lines[1:3]) or len(source.fields[0]) > 9:
        return False
    count = int(source.fields[0])
    if len(source.lines) < LINES:
        return len(source.lines) - 1 == count
    return sum(1 for _ in source.stream.lines()) - 1 == count


def _is_list(source: Source) -> bool:
    return fits_count(source) and source.n_tasks in (None, int(source.fields[0]))


def read_sst_list(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a list of node numbers below their count."""
    text = source.text
    text.first_line()
    lines = list(text.lines())
    count = whole(text, lines[0][0], "number of nodes", lines[0][1])
    if len(lines) - 1 != count:
        raise text.fault("wrong number of nodes", lines[0][0], len(lines) - 1, count)
    most = options.torus.n_nodes - 1
    numbers = [whole(text, line, "node", word, most) for line, word in lines[1:]]
    table, columns = rows_of(text, [line for line, _ in lines[1:]], numbers)
    return mapping_of(table, first_fastest(options.torus)[columns[0]], options)


def write_sst_list(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the count and the node of each task."""
    number = np.argsort(first_fastest(target.torus))[mapping.node]
    write_lines(path, "\n".join(map(str, [number.size, *number.tolist()])) + "\n")


def is_scotch_map(source: Source) -> bool:
    """Whether a count stands above so many lines of two numbers."""
    if len(source.fields) != 1 or not WHOLE.fullmatch(source.fields[0]) or len(source.lines) < 2:
        return False
    pairs = [fields(line) for _, line in source.lines[1:]]
    if any(len(p) != 2 or not all(map(WHOLE.fullmatch, p)) for p in pairs[:2]):
        return False
    count = int(source.fields[0][:9])
    return len(pairs) == count if len(source.lines) < LINES else count >= LINES - 1


def read_scotch(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``task number``, numbers counted as Scotch's tori do."""
    text = source.text
    number, line = text.first_line()
    count = whole(text, number, "number of tasks", line)
    table = read_table(text, [Column("task", True), Column("node", True)], skip=number)
    if table.n_rows != count:
        raise text.fault("wrong number of tasks", number, count, f"{table.n_rows}, as many lines")
    task, domain = table.columns
    within(table, domain, "node", options.torus.n_nodes)
    return mapping_of(table, first_fastest(options.torus)[domain], options, task=task)


def write_scotch(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write a count and lines ``task number``."""
    number = np.argsort(first_fastest(target.torus))[mapping.node].tolist()
    lines = "".join(f"{task}\t{node}\n" for task, node in enumerate(number))
    write_lines(path, f"{len(number)}\n{lines}")


def is_treematch(source: Source) -> bool:
    """Whether a label and a colon stand before numbers with commas between."""
    return len(source.lines) == 1 and bool(TREEMATCH.fullmatch(source.lines[0][1]))


def read_treematch(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a line ``TreeMatch: core of task 0, core of task 1, ...``."""
    text = source.text
    number, line = text.first_line()
    name, _, rest = line.partition(":")
    cores = [
        whole(text, number, f"place of task {t}", part.strip())
        for t, part in enumerate(rest.strip().rstrip(",").split(","))
    ]
    capacity = options.capacity or 1
    table, (place,) = rows_of(text, [number] * len(cores), cores)
    return mapping_of(table, place // capacity, options, slot=place % capacity, name=name.strip())


DIALECTS = (
    Dialect(
        name="nodes",
        holds="mapping",
        title="the node of each task (partition of METIS or KaHIP)",
        recognise=lambda source: are_nodes(source) and not has_sign(source),
        read=read_nodes,
        plain=True,
        write=write_nodes,
        documentation="""
One number on each line, or all on one line. Nodes are numbered in C order. A single line of D or
D + 1 numbers on a torus of D dimensions may be a place as well: the number of tasks decides, or
`--mapping-format`.
""",
        example="1\n0\n3\n2\n",
    ),
    Dialect(
        name="named-lines",
        holds="mapping",
        title="several mappings: name, node, node, ...",
        recognise=are_named_lines,
        read=read_many,
        documentation="""
Several mappings in one file, for `--mappings`: on each line a name, then the node of each task.
""",
        example="identity,0,1,2,3\nturned,1,0,3,2\n",
    ),
    Dialect(
        name="sst-macro",
        holds="mapping",
        title="SST-macro's list of node numbers below their count",
        recognise=_is_list,
        read=read_sst_list,
        write=write_sst_list,
        plain=True,
        documentation="""
The number of tasks, then the node of each on a line of its own. SST-macro's torus counts the first
coordinate fastest; toruscast converts the numbering when reading.
""",
        example="4\n0\n2\n2\n0\n",
        advice="app1.indexing = node_id, app1.node_id_file = {file} (SST-macro)",
    ),
    Dialect(
        name="scotch-map",
        holds="mapping",
        title="mapping of Scotch (gmap): a count, then task and node",
        recognise=is_scotch_map,
        read=read_scotch,
        write=write_scotch,
        documentation="""
What `gmap` writes: the number of vertices, then a line for each, its number and that of its node.
Scotch's tori (`torusXD`) count the first coordinate fastest; toruscast turns the numbers at the
door. For pairs in C order give the columns names, `task,node`.
""",
        example="4\n0 3\n1 1\n2 0\n3 2\n",
        advice="gmtst GRAPH TARGET {file} (Scotch tells what it makes of the mapping)",
    ),
    Dialect(
        name="treematch",
        holds="mapping",
        title="TreeMatch's line: label: place, place, ...",
        recognise=is_treematch,
        read=read_treematch,
        documentation="""
What TreeMatch prints: a label and the place of each task. Places are cores, `--tasks-per-node` of
them to a node; without it each is a node.
""",
        example="TreeMatch: 1,0,3,2,5,4,7,6\n",
    ),
)
