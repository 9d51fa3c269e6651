"""Write the pages of `docs/reference` that are made from the program: `make pages`."""

from __future__ import annotations

from pathlib import Path

import api_page
import collectives_page
import command_page
import features_page
import formats_page
import machines_page
import questions_page

FOLDER = Path(__file__).parents[1] / "docs/reference"
PAGES = {
    "accuracy": questions_page.accuracy,
    "api": api_page.page,
    "collectives": collectives_page.page,
    "command": command_page.page,
    "duration": questions_page.duration,
    "features": features_page.page,
    "formats": formats_page.page,
    "machines": machines_page.page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / f"{name}.md").write_text(page(), encoding="utf-8")
    picture = FOLDER.parent / "figures/accuracy.svg"
    picture.write_text(questions_page.accuracy_chart(), encoding="utf-8")
