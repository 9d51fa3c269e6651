"""Read and update the tables of counts that `tools/reliability.py` displays."""

import csv


def read(path):
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def renew(path, found):
    """Write rows to a table; a row replaces the one with the same first column."""
    before = read(path)
    key, *_ = names = list(before[0])
    rows = {row[key]: row for row in [*before, *found]}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
