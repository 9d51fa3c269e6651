"""Write `docs/reference/features.md` from the registry.

python tools/features_page.py docs/reference/features.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from toruscast.features import FEATURES
from toruscast.training import FEATURE_SETS

HEAD = """# Features

This page lists the contention metrics that `toruscast features` and `tc.extract` compute, one
number for each mapping. `tools/features_page.py` makes it from the registry.

```sh
toruscast features --list
toruscast features --comm lammps-lj-64 --torus 4x4x4 --candidates 20 --csv features.csv
```

Level 1 needs the routes only; level 2 needs the packet simulator. *Average outliers* are values
greater than the mean, *top outliers* those within 5 % of the largest. The names that Jain et al.
(SC'13) use keep their meaning. [Add a metric](../guide/add-a-metric.md) shows how to add your own.

## Sets

| set | features |
|---|---|
"""
TABLE = """
## All features

| feature | level | unit | what it is |
|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    sets = [f"| `{name}` | {', '.join(members)} |\n" for name, members in FEATURE_SETS.items()]
    rows = [
        f"| `{feature.name}` | {feature.level} | {feature.unit} | {feature.description} |\n"
        for feature in FEATURES.values()
        if feature.is_built_in
    ]
    return HEAD + "".join(sets) + TABLE + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
