"""Make the pages of file formats from the registry."""

from __future__ import annotations

from toruscast.formats.dialect import DataKind, Dialect
from toruscast.formats.registry import dialects

HEAD = """# Files that toruscast reads and writes

<!-- Made from the registry of formats: make pages -->

This page lists the file formats, and explains how the format of a file is recognised. `--format
NAME` (`format=` in Python) sets the format. Without it, the first rule that matches a format
decides:

1. The name of the file, if a launcher requires a certain name (`MPICH_RANK_ORDER`).
2. A signature at the start of the file, or a header with the names of columns.
3. The suffix, except `.txt`, and except `.csv` for bare numbers. If several formats have the
   suffix, such as `.map`, the numbers decide.
4. The shape of bare numbers. In a graph, 3 or 4 columns are edges, possibly below a line with the
   number of tasks, and n rows of n numbers are a matrix. In a mapping, a single column or row lists
   the nodes of the tasks. If there is one column per dimension of the torus, the columns are
   coordinates, and one more column is the slot. If the first number equals the number of rows below
   it, it may be the header of a METIS, Scotch or SST-macro file.

If no rule matches, or if a rule matches two formats, the error message shows the first line and the
two most similar formats. Edges whose numbers could all be vertices are refused in the same way.
Such a file could be a METIS mesh (a count, then the corners of each element), or a list of vertices
and their neighbours as NetworkX writes it. `toruscast formats` lists the formats, and `toruscast
formats NAME` shows an example. `toruscast doctor FILE` reads a file and reports its content or its
errors.

All files may be compressed with gzip. In text files, `#` starts a comment at the beginning of a
line or after a blank, so names such as `sum#size` are not cut. Formats without comments are
exceptions. Tasks and nodes are numbered from 0 unless the format numbers them otherwise.

Readers of graphs report traffic that they find but do not count ("Not counted: ..."), with its
bytes if the file gives them. It is in `omitted` in JSON, and in `Workload.omitted` in Python.
Unknown words, sections, elements, attributes and records are refused or reported. In tables,
unknown columns of numbers are reported because they may be traffic, and columns of text are
ignored. Readers of networks warn about keys that they do not use.

A small file that describes millions of tasks, rows or links is refused before memory is allocated.
The limit is 400 MB, or a thousand times the size of the file.
"""
TABLE = "| format | what it is |\n|---|---|\n"
# Kinds of data in the order of the list, with the page of each and the heading of its section.
PARTS: dict[DataKind, tuple[str, str]] = {
    "graph": (
        "graphs",
        """# Communication graphs

`--comm`, `toruscast convert` and `tc.read_comm` read these files. `tc.write_comm` writes them.
""",
    ),
    "mapping": (
        "mappings",
        """# Task mappings

`--mapping`, `--mappings`, `tc.read_mapping` and `tc.read_mappings` read these files.
`tc.write_mapping` writes them. If `--mappings` is a folder, each of its files with the suffix
`.map`, `.txt` or `.csv` is a mapping. Nodes are numbered in C order, so the last coordinate varies
fastest.

A node may run one task. If there are more tasks than nodes (or nodes of `--allocation` or
`--hosts`), a node may run the smallest number of tasks that suffices. More tasks on a node are an
error, except in two cases:

- `--tasks-per-node` allows them.
- The file gives their number: slots or cores of tasks (rankfiles, map files of Blue Gene with T, a
  column `slot`, `core_on_chip`), the ranks of a node (`MPICH_RANK_ORDER` with its comment), the
  slots of a host (`slots=2`), a list of tasks for each node, or the output of a launcher for ranks
  that ran.
""",
    ),
    "torus": (
        "tori",
        """# Tori

`--torus`, `tc.torus` and `tc.read_torus` read these files. `tc.write_torus` and `toruscast convert
--machine` write them. `--torus` also accepts sizes such as `8x8x8m` and machines such as
`tpu_v4:4x4x8`. `--network KEY=VALUE` overrides a value of the file.
""",
    ),
    "hosts": ("hosts", "# Tables of hosts\n\n`--hosts` and `tc.read_hosts` read these files.\n"),
    "times": ("times", "# Measured times\n\n`--times` and `tc.read_times` read these files.\n"),
}


def pages() -> dict[str, str]:
    """Return the pages by path in docs: an overview, and a page for each kind of data."""
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
    """Return whether a format can be written, its suffixes, and the package that it needs."""
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
