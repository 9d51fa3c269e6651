"""Write the pages of `docs` that are generated from the program and from tables: `make pages`."""

from __future__ import annotations

import shutil
from pathlib import Path

import collectives_page
import command_page
import duration_page
import evidence_page
import features_page
import formats_page
import machines_page

DOCS = Path(__file__).parents[1] / "docs"
# Folders in which this program writes every file.
OWN = ("figures/evidence", "reference/command", "reference/formats", "reference/machines")
_WRITERS = (
    collectives_page,
    command_page,
    duration_page,
    evidence_page,
    features_page,
    formats_page,
    machines_page,
)


def pages() -> dict[str, str]:
    """Return the texts of all pages and charts by path in docs."""
    return {name: text for writer in _WRITERS for name, text in writer.pages().items()}


if __name__ == "__main__":
    for folder in OWN:
        shutil.rmtree(DOCS / folder, ignore_errors=True)
    for name, text in pages().items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
