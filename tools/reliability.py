"""Write the page of hostile input from what `make fuzz` left behind.

python tools/reliability.py .venv/fuzz docs/reliability.md
"""

import csv
import json
import sys
from pathlib import Path

FOUND = Path(__file__).parents[1] / "tests" / "data" / "fuzz" / "found.csv"
HEAD = """# Reliability

Every reader gets hostile files (`make fuzz RUNS=1000000`). Each has to end in one line or a value,
within two seconds of a processor and 500 MB; no code of the file runs, and nothing is written
elsewhere. `make test` reads again what was found.

## Files tried

At least so many in the last run, of which the page is made. The faults that it showed stand below;
they are mended since.

| readers | files |
|---|---|
"""
MENDED = """
## Found and mended

| what | test |
|---|---|
"""


def main(results, page):
    counts = {
        path.stem: json.loads(path.read_text())["executions"]
        for path in sorted(results.glob("*.json"))
    }
    rows = [f"| {name} | {count:,} |\n" for name, count in counts.items()]
    total = f"| all {len(counts)} | {sum(counts.values()):,} |\n"
    with FOUND.open(newline="") as file:
        found = [f"| {row['what']} | `{row['test']}` |\n" for row in csv.DictReader(file)]
    page.write_text(HEAD + "".join(rows) + total + MENDED + "".join(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
