"""``python -m studies.presets``: write the page."""

from pathlib import Path

from . import page

PAGE = Path(__file__).parents[1] / "results/presets.md"
PAGE.write_text(page(), encoding="utf-8")
