"""An example of each format."""

import tempfile
from pathlib import Path

from toruscast.mapping import CommGraph


def example_bytes(dialect):
    """Return the example of a dialect, written by its writer if the record has none."""
    if isinstance(dialect.example, bytes):
        return dialect.example
    if dialect.example or dialect.write is None or dialect.holds != "graph":
        return dialect.example.encode()
    with tempfile.TemporaryDirectory() as folder:
        # Writers only use the path. Archives need their own suffix.
        path = Path(folder) / f"example{(*dialect.suffixes, '')[0]}"
        dialect.write(CommGraph(4, [0, 1, 2], [1, 2, 3], [64, 64, 8]), path)
        return path.read_bytes()
