"""``python -m studies.layouts``: write the page."""

from pathlib import Path

from . import compare, page, rows

PAGE = Path(__file__).parents[1] / "results/layouts.md"
PAGE.write_text(page([compare(row) for row in rows()]), encoding="utf-8")
