"""The page of formats, made from the registry."""

from __future__ import annotations

from toruscast.mapping.formats.dialect import Dialect, Holds
from toruscast.mapping.formats.registry import dialects

HEAD = """# Files that toruscast reads and writes

<!-- Made from the registry of formats: make pages -->

This page describes each format. The content of a file decides its format, never its
suffix. Where a file fits two, toruscast asks: `--format NAME` (`format=` in Python) says which.
`toruscast formats` lists the formats, and `toruscast formats NAME` shows an example of one.
`toruscast doctor FILE` says what a file is and what is wrong with it.

Any file may be gzip. In text, `#` starts a comment unless the format knows none. Tasks and nodes
are numbered from 0 unless the format counts otherwise.
"""
PARTS: dict[Holds, str] = {
    "graph": """## Communication graphs

For `--comm`, `toruscast convert` and `tc.read_comm`; `tc.write_comm` writes.
""",
    "mapping": """## Task mappings

For `--mapping`, `--mappings`, `tc.read_mapping` and `tc.read_mappings`; `tc.write_mapping` writes.
A folder for `--mappings` holds one mapping in each file that ends in `.map`, `.txt` or `.csv`.
Nodes are numbered in C order: the last coordinate varies fastest. Several tasks may share a node;
`--tasks-per-node` sets how many are allowed.
""",
    "torus": """## Tori

For `--torus`, `tc.parse_torus` and `tc.read_torus`; `tc.write_torus` writes, and so does
`toruscast convert --machine`. On the command line sizes such as `8x8x8m` and machines such as
`tpu_v4:4x4x8` do as well, and `--network KEY=VALUE` changes what a file says.
""",
    "hosts": """## Tables of hosts

For `--hosts` and `tc.read_hosts`.
""",
    "times": "## Measured times\n\nFor `--times` and `tc.read_times`.\n",
}


def page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for holds, head in PARTS.items():
        known = dialects(holds)
        if known:
            parts += [head, *map(_section, known)]
    return "\n".join(parts)


def _ways(dialect: Dialect) -> str:
    """Say whether files are read and written, with which suffixes and which package."""
    ways = [word for word, way in (("read", dialect.read), ("written", dialect.write)) if way]
    needs = f" with the package `{dialect.needs}`" if dialect.needs else ""
    suffixes = f" to {', '.join(f'`{s}`' for s in dialect.suffixes)}" if dialect.suffixes else ""
    told = ", ".join(ways) + needs + (suffixes if dialect.write else "")
    return told[:1].upper() + told[1:]


def _section(dialect: Dialect) -> str:
    lines = [
        f"### {dialect.name}: {dialect.title}\n",
        f"{_ways(dialect)}.\n",
        f"{dialect.documentation.strip()}\n",
    ]
    words = [f"`{advice.replace('{file}', 'FILE')}`" for advice in dialect.advices]
    if words:
        lines.append(f"To use it: {' or '.join(words)}.\n")
    return "\n".join(lines)
