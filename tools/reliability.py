"""Write the page of faults from the stored counts and the counts of a run of `make fuzz`.

python tools/reliability.py benchmarks/reliability.md [.venv/fuzz]
"""

import json
import sys
from pathlib import Path

from kept import read, renew

DATA = Path(__file__).parents[1] / "tests" / "data"
COUNTS = DATA / "fuzz" / "counts.csv"
HEAD = """# Reliability

This page lists how the program is tested with wrong input and interruptions, and the faults that
these tests found.


"""
FUZZED = """## Hostile files

`make fuzz` (`tools/fuzz.py`) gives damaged and hostile files to every reader. The reader must
return a value or an error message of one line, within two processor seconds and 500 MB. It must not
run code from the file, or write any other file. `make test` repeats the files that found a fault.
The table has the minimum number of files in the last run of `make fuzz`
(`tests/data/fuzz/counts.csv`).


| readers | files |
|---|---|
"""
KILLED = """
## Kills

`make kills` (`tools/kills.py`) kills each long command (SIGKILL) at random moments, and repeats it
until it completes. The results must equal those of an uninterrupted run, bit for bit: the same
samples, the same predictions of the model, the same runs on the machine, and no other files except
hidden temporary files. Dates, command lines and processor seconds are not compared. `make test`
kills each command three times. The table is from the last run of `make kills KILLS=50`
(`tests/data/kills.csv`).

| command | kills | different results |

|---|---|---|
"""
LAWS = """
## Laws

`make laws` (`tools/laws.py`) tests each law of link loads and of the simulator on random tori
(including twisted ones), graphs, mappings and networks. `make test` tests 25 to 60 examples of each
law. The table is from the last run of `make laws` (`tests/data/laws.csv`).


| law | examples | failures |
|---|---|---|
"""
TRIED = """
## Long runs and other versions

Commands that take minutes run on demand. The table has their last results (`tests/data/tried.csv`).

| command | what it tests | result |

|---|---|---|
"""
MENDED = """
## Fixed faults

Each fault that these runs or users found now has a test (`tests/data/fuzz/found.csv`).

| fault | test |

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
