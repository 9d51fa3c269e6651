"""Make the page of features from the registry."""

from __future__ import annotations

import re

from toruscast._features import FEATURES
from toruscast.training import FEATURE_SETS

HEAD = """# Features

This page lists the contention metrics that `toruscast features` and `tc.features` compute. Each is
one number per mapping. `make pages` writes this page from the registry.

```sh
toruscast features --list
toruscast features --comm lammps-lj-64 --torus 4x4x4 --candidates 20 --csv features.csv
```

Features of level 1 need only the routes. Features of level 2 need the packet simulator. Names from
Jain et al. (SC'13) have the same meaning as there. [Add a metric](../guide/add-a-metric.md) shows
how to add your own.

## Sets

| set | features |
|---|---|
"""
FAMILIES = """
## Aggregates of an indicator

A name consists of an aggregate, an indicator and a selection, as in `avg_bytes_AO`. Without a
selection, all values are aggregated. The selection `AO` (average outliers) contains the values
above the mean, and `TO` (top outliers) contains the values within 5 % of the largest.

| indicator | values | level | unit | aggregates of all | of `AO` and `TO` |
|---|---|---|---|---|---|
"""
OTHERS = """
## Other features

| feature | level | unit | what it is |
|---|---|---|---|
"""
# Aggregate, indicator, selection.
NAME = re.compile(r"([a-z0-9]+)_(bytes|dilation|FIFO|buffer|delay)(_AO|_TO)?")


def pages() -> dict[str, str]:
    """Return the page by its path in docs."""
    known = [feature for feature in FEATURES.values() if feature.is_built_in]
    sets = [f"| `{name}` | {', '.join(members)} |\n" for name, members in FEATURE_SETS.items()]
    families: dict[str, list[str]] = {}
    selected: dict[str, list[str]] = {}
    rows = []
    for feature in known:
        match = NAME.fullmatch(feature.name)
        # A feature with a description of its own is not listed as an aggregate, whatever its name.
        of, values = feature.description.partition(" of the ")[::2]
        if match is None or not values or of[:1].isupper():
            rows.append(
                f"| `{feature.name}` | {feature.level} | {feature.unit} | {feature.description} |\n"
            )
            continue
        aggregate, indicator, selection = match.groups()
        if selection:
            listed = selected.setdefault(indicator, [])
            if aggregate not in listed:
                listed.append(aggregate)
        elif indicator in families:
            families[indicator].append(aggregate)
        else:
            families[indicator] = [values, str(feature.level), feature.unit, aggregate]
    tables = [
        f"| `{name}` | {values} | {level} | {unit} | {', '.join(plain)} | "
        f"{', '.join(selected[name])} |\n"
        for name, (values, level, unit, *plain) in families.items()
    ]
    text = HEAD + "".join(sets) + FAMILIES + "".join(tables) + OTHERS + "".join(rows)
    return {"reference/features.md": text}
