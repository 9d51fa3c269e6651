"""Draw the picture of a report on the start page: ``draw_report.py docs/figures/report.png``.

It needs playwright and its Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import toruscast as tc

WIDTH, HEIGHT = 1100, 1090


def page(path: Path) -> None:
    comm = tc.datasets.load("lammps-droplet-128").scaled(1 / 100)
    torus = tc.torus("bluegene_p:4x4x8")
    mappings = tc.strategies.sample(comm, torus, n=20, seed=1)
    tc.write_report(tc.rank(comm, torus, mappings, check=True), path)


def main(target: str) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "answer.html"
        page(path)
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        shown.goto(path.as_uri())
        shown.wait_for_selector("body[data-ready=yes]")
        shown.screenshot(path=target)
        opened.close()


if __name__ == "__main__":
    main(sys.argv[1])
