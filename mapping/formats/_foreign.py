"""Text in formats that are not read: what it looks like, for the message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .source import Source

# What may follow the first bracket in JSON.
JSON = re.compile(r"\s*[\[{]\s*([\"\[{\]}]|-?[0-9]|$)")
XML = re.compile(r"\s*<[?!a-zA-Z]")
# A number that may have a decimal comma.
NUMBER = re.compile(r"[+-]?[0-9]*([.,][0-9]+)?([eE][+-]?[0-9]+)?")
START = 200
# Formats that are known but not read, by their first bytes.
KNOWN = (
    (rb"\x89HDF", "HDF5"),
    (rb"CDF[\x01\x02\x05]", "NetCDF"),
    (rb"SQLite format 3", "an SQLite database"),
    (rb"\x28\xb5\x2f\xfd", "Zstandard, which is not unpacked"),
    (rb"\xfd7zXZ", "xz, which is not unpacked"),
    (rb"BZh[1-9]", "bzip2, which is not unpacked"),
    (rb"\x80[\x02-\x05]", "a pickle, which is never loaded"),
    (rb"\x7fELF", "a program"),
    (rb"%PDF", "PDF"),
    (rb"#Paraver", "a trace of Paraver"),
    (rb"\s*[0-9]+ templated_functions", "a profile of TAU"),
    (rb"\s*<\?xml[^>]*>\s*(<!--.*?-->\s*)*<graphml", "GraphML"),
    (rb"\s*<\?xml[^>]*>\s*(<!--.*?-->\s*)*<gexf", "GEXF"),
    (rb"\s*(strict\s+)?(di)?graph\s*\w*\s*\{", "DOT"),
    (rb"\s*graph\s*\[", "GML"),
    (rb"\s*\*Vertices", "Pajek"),
    (rb"\s*\{.{0,150}\"traceEvents\"", "a Chrome trace"),
)


def are_numbers(line: str) -> bool:
    """Whether a line holds numbers separated by semicolons, and nothing else.

    Examples
    --------
    >>> are_numbers("0;1;64,5"), are_numbers("a;1"), are_numbers("1")
    (True, False, False)
    """
    parts = [part.strip() for part in line.split(";")]
    return any(parts) and len(parts) > 1 and all(NUMBER.fullmatch(part) for part in parts)


def foreign_name(source: Source) -> str | None:
    """Return what a file looks like that no dialect knows; None if it looks like nothing."""
    for sign, name in KNOWN:
        if re.match(sign, source.start[:4096], re.S | re.I):
            return name
    line = source.first_line()[1]
    return _look(source.start[:START].decode(errors="replace"), line)


def _look(start: str, line: str) -> str | None:
    if JSON.match(start):
        return "JSON"
    if XML.match(start):
        return "XML"
    if (";" in line and "," not in line) or are_numbers(line):
        return "values separated by ;"
    return None
