"""Measure the page of a large answer: seconds to make, size, seconds until it can be used.

    python benchmarks/page.py --out FOLDER

Writes page.csv, with a row for each size: 84 candidates of a halo exchange with 16 tasks per node.
Chromium opens the page from disk. The page can be used when the picture of the torus is drawn.
Processor seconds are those of making the page, without those of the answer.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from playwright.sync_api import sync_playwright
from run import machine

import toruscast as tc

SIZES = {(16, 32, 32): "bluegene_q:1024", (32, 32, 64): "bluegene_q:4096"}
CANDIDATES, NBYTES = 84, 8192


def measure(grid: tuple[int, ...], name: str) -> dict[str, Any]:
    """Make the page of an answer and open it; return the seconds and the size."""
    comm, torus = tc.patterns.halo_3d(grid, NBYTES, periodic=True), tc.torus(name)
    mappings = tc.strategies.sample(comm, torus, n=CANDIDATES, seed=1, tasks_per_node=16)
    answer = tc.rank(comm, torus, mappings, budget=0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answer.html"
        began, processor = time.monotonic(), time.process_time()
        tc.write_report(answer, path)
        made, processor = time.monotonic() - began, time.process_time() - processor
        return {
            "tasks": comm.n_tasks,
            "nodes": torus.n_nodes,
            "candidates": len(mappings),
            "seconds": made,
            "processor_seconds": processor,
            "megabytes": path.stat().st_size / 1e6,
            "seconds_to_use": opened(path),
        }


def opened(path: Path) -> float:
    """Return the seconds until the page is drawn, in the best of three openings."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    taken = []
    with sync_playwright() as started:
        shown = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(3):
            page = shown.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri(), wait_until="commit")
            page.wait_for_selector("body[data-ready=yes]", timeout=120_000)
            taken.append(page.evaluate("performance.now()") / 1000)
            page.close()
        shown.close()
    return min(taken)


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for page.csv")
    arguments = parser.parse_args()
    table = pd.DataFrame([measure(*each) for each in SIZES.items()])
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.assign(**machine()).to_csv(arguments.out / "page.csv", index=False)
    print(table.to_string())


if __name__ == "__main__":
    main()
