"""Tables of what the tools counted, which `tools/reliability.py` shows."""

import csv


def read(path):
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def renew(path, found):
    """Take rows into a table; each replaces the row whose first column is alike."""
    before = read(path)
    key, *_ = names = list(before[0])
    rows = {row[key]: row for row in [*before, *found]}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
