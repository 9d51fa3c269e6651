"""Write the page of faults from the counts that are kept, and those of a run of `make fuzz`.

python tools/reliability.py benchmarks/reliability.md [.venv/fuzz]
"""

import json
import sys
from pathlib import Path

from kept import read, renew

DATA = Path(__file__).parents[1] / "tests" / "data"
COUNTS = DATA / "fuzz" / "counts.csv"
HEAD = """# Reliability

This page tells which faults were tried on the program, and which of them it did not stand at first.

"""
FUZZED = """## Hostile files

`make fuzz` (`tools/fuzz.py`) gives every reader damaged and hostile files. Each has to end in one
line or a value, within two seconds of a processor and 500 MB; no code of the file runs, and nothing
is written elsewhere. `make test` reads again what was found. At least so many files were tried in
the last run of `make fuzz`; the counts are kept in `tests/data/fuzz/counts.csv`.

| readers | files |
|---|---|
"""
KILLED = """
## Kills

`make kills` (`tools/kills.py`) kills each long command (SIGKILL) at random moments and gives it
again until it ends. What it leaves has to be equal bit for bit to what an undisturbed run leaves:
the same samples, the same forecasts of the model, the same runs on the machine, and no other file
but hidden temporary ones. Dates, command lines and processor seconds are not compared. `make test`
does it with three kills each. The table is of the last run with `make kills KILLS=50`, kept in
`tests/data/kills.csv`.

| command | kills | ends that differ |
|---|---|---|
"""
LAWS = """
## Laws

`make laws` (`tools/laws.py`) tries each law of loads and of the simulator on random tori, graphs,
mappings and networks, twisted tori among them. `make test` tries 25 to 60 of each. The table is of
the last run of `make laws`, kept in `tests/data/laws.csv`.

| law | examples | failures |
|---|---|---|
"""
TRIED = """
## Long work, other versions

Commands that take minutes run on demand; what each said last is kept in `tests/data/tried.csv`.

| command | what it tries | result |
|---|---|---|
"""
MENDED = """
## Found and mended

Each fault that these runs, or people, found has a test since (`tests/data/fuzz/found.csv`).

| what | test |
|---|---|
"""


def fuzzed(results):
    """Return the counts of a run of `make fuzz`."""
    for path in sorted(results.glob("*.json")):
        yield {"readers": path.stem, "files": json.loads(path.read_text())["executions"]}


def page():
    counts = [(row["readers"], int(row["files"])) for row in read(COUNTS)]
    counts.append((f"all {len(counts)}", sum(count for _, count in counts)))
    kills, laws, tried = (read(DATA / f"{name}.csv") for name in ("kills", "laws", "tried"))
    found = read(DATA / "fuzz" / "found.csv")
    return "".join(
        [
            HEAD,
            FUZZED,
            *(f"| {name} | {count:,} |\n" for name, count in counts),
            KILLED,
            *(f"| {row['command']} | {row['kills']} | {row['differ']} |\n" for row in kills),
            LAWS,
            *(f"| {row['law']} | {int(row['examples']):,} | {row['failures']} |\n" for row in laws),
            TRIED,
            *(f"| `{row['command']}` | {row['tries']} | {row['result']} |\n" for row in tried),
            MENDED,
            *(f"| {row['what']} | `{row['test']}` |\n" for row in found),
        ]
    )


if __name__ == "__main__":
    if sys.argv[2:]:
        renew(COUNTS, fuzzed(Path(sys.argv[2])))
    Path(sys.argv[1]).write_text(page())
