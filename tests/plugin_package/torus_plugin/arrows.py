"""A format."""

import re

from toruscast.formats.dialect import Dialect
from toruscast.formats.graphs import GraphOptions
from toruscast.formats.source import Source
from toruscast.mapping import CommGraph

LINE = re.compile(r"(\d+) -> (\d+): (\d+)")


def is_arrows(source: Source) -> bool:
    """Whether the first line is an arrow."""
    return bool(LINE.fullmatch(source.first_line()[1]))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of lines ``src -> dst: bytes``."""
    rows = []
    for number, line in source.text.lines():
        match = LINE.fullmatch(line)
        if match is None:
            raise source.text.fault("bad edge", number, line, "src -> dst: bytes")
        rows.append([int(part) for part in match.groups()])
    src, dst, nbytes = zip(*rows, strict=True)
    return CommGraph(max(src + dst) + 1, src, dst, nbytes, name=options.name)


DIALECT = Dialect(
    name="arrows",
    holds="graph",
    title="lines of src -> dst: bytes",
    recognise=is_arrows,
    read=read,
    documentation="Each line is a message: its source, its destination and its bytes.",
    example="0 -> 1: 4096\n1 -> 0: 512\n",
)
