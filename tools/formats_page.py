"""The pages of formats, made from the registry."""

from __future__ import annotations

from toruscast.formats.dialect import DataKind, Dialect
from toruscast.formats.registry import dialects

HEAD = """# Files that toruscast reads and writes

<!-- Made from the registry of formats: make pages -->

This page lists the formats and says how a file is recognised. `--format NAME` (`format=` in Python)
says which format a file has.
Without it, the first rule that matches a format decides:

1. The file's own name, where a launcher fixes it: `MPICH_RANK_ORDER`.
2. A signature at the start, or a header with the names of columns.
3. The suffix, but neither `.txt` nor, for bare numbers, `.csv`. Where several formats have the
   suffix, such as `.map`, the numbers decide.
4. Bare numbers. In a graph, 3 or 4 columns are edges, maybe below a line with the number of tasks,
   and n rows of n numbers are a matrix. In a mapping, one column or one row are the nodes of the
   tasks, and as many columns as the torus has dimensions, maybe followed by a slot, are
   coordinates. A first number that counts the rows below it may be the head of a file of METIS,
   Scotch or SST-macro.

Where no rule matches, or a rule matches two formats, the message shows the first line and the two
formats that are nearest. So it does for edges whose numbers may all be vertices: the corners of a
mesh of METIS below their count, or vertices and their neighbours as NetworkX writes them.
`toruscast formats` lists the formats, and `toruscast formats NAME` shows an example of one.
`toruscast doctor FILE` calls the reader of a file and reports what it says.

Any file may be gzip. In text, `#` starts a comment unless the format knows none. A comment begins a
line or follows a blank, so that names such as `sum#size` stay whole. Tasks and nodes are numbered
from 0 unless the format counts otherwise.

What a reader of graphs finds and does not count is listed beside the answer ("Not counted: ...",
with its bytes where the file holds them), in JSON as `omitted` and in Python as
`Workload.omitted`. Unknown words, sections, elements, attributes and records are refused or listed.
In tables these are columns of numbers, which may be traffic; columns of text are passed over.
Readers of networks warn of keys that are not used.

A file of a few lines that claims millions of tasks, rows or links is refused before memory is taken
for them: the limit is 400 MB, or a thousand times the size of the file.
"""
TABLE = "| format | what it is |\n|---|---|\n"
# Kinds of data in the order of the list, the page of each and what begins its part there.
PARTS: dict[DataKind, tuple[str, str]] = {
    "graph": (
        "graphs",
        """# Communication graphs

For `--comm`, `toruscast convert` and `tc.read_comm`; `tc.write_comm` writes.
""",
    ),
    "mapping": (
        "mappings",
        """# Task mappings

For `--mapping`, `--mappings`, `tc.read_mapping` and `tc.read_mappings`; `tc.write_mapping` writes.
A folder for `--mappings` holds one mapping in each file that ends in `.map`, `.txt` or `.csv`.
Nodes are numbered in C order: the last coordinate varies fastest.

A node takes one task, or the least that suffices where there are more tasks than nodes (of
`--allocation` or `--hosts` where it is given). More tasks on a node are an error, unless

- `--tasks-per-node` allows them, or
- the file states them: slots or cores of tasks (rankfiles, map files of Blue Gene with T, a column
  `slot`, `core_on_chip`), the ranks of a node (`MPICH_RANK_ORDER` with its comment), the slots of a
  host (`slots=2`), lists of the tasks of each node, or what a launcher printed of ranks that ran.
""",
    ),
    "torus": (
        "tori",
        """# Tori

For `--torus`, `tc.torus` and `tc.read_torus`; `tc.write_torus` writes, and so does
`toruscast convert --machine`. On the command line sizes such as `8x8x8m` and machines such as
`tpu_v4:4x4x8` do as well, and `--network KEY=VALUE` changes what a file says.
""",
    ),
    "hosts": ("hosts", "# Tables of hosts\n\nFor `--hosts` and `tc.read_hosts`.\n"),
    "times": ("times", "# Measured times\n\nFor `--times` and `tc.read_times`.\n"),
}


def pages() -> dict[str, str]:
    """Return the pages by their paths in docs: rules and a list, and one for each kind of data."""
    written, rows = {}, ""
    for holds, (name, head) in PARTS.items():
        known = dialects(holds)
        rows += "".join(
            f"| [{each.name}](formats/{name}.md#{each.name}) | {each.title} |\n" for each in known
        )
        text = "\n".join([head, *map(_section, known)])
        written[f"reference/formats/{name}.md"] = text
    return {"reference/formats.md": f"{HEAD}\n{TABLE}{rows}", **written}


def _ways(dialect: Dialect) -> str:
    """Say whether files are written, with which suffixes they end and which package they need."""
    ways = ["read", "written"] if dialect.write else ["read"]
    needs = f" with the package `{dialect.needs}`" if dialect.needs else ""
    names = ", ".join(f"`{suffix}`" for suffix in dialect.suffixes)
    told = ", ".join(ways) + needs + (f"; suffix {names}" if names else "")
    return told[:1].upper() + told[1:]


def _section(dialect: Dialect) -> str:
    lines = [
        f"## {dialect.name}\n",
        f"{dialect.title[:1].upper()}{dialect.title[1:]}. {_ways(dialect)}.\n",
        f"{dialect.documentation.strip()}\n",
    ]
    words = [f"`{advice.replace('{file}', 'FILE')}`" for advice in dialect.usage_lines]
    if words:
        lines.append(f"To use it: {' or '.join(words)}.\n")
    return "\n".join(lines)
