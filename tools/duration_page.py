"""Make the page about run times from the tables of benchmarks/results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

_RESULTS = Path(__file__).parents[1] / "benchmarks/results"
_WORK = {
    "make a mapping": "make a mapping",
    "level-1 features": "features of its routes (`features`)",
    "simulation": "simulate it (`simulate`)",
    "level-2 features": "simulate it, with all counters (`features --level 2`)",
}


def pages() -> dict[str, str]:
    """Return the page by its path in docs."""
    cost = pd.read_csv(_RESULTS / "cost.csv")
    cost = cost[cost["kind"].isin(_WORK)]
    sizes = sorted(cost["tasks"].unique())
    head = "| work on one mapping | " + " | ".join(f"{n:,} tasks" for n in sizes) + " |\n"
    head += "|---|" + "---:|" * len(sizes) + "\n"
    rows = ""
    for kind, words in _WORK.items():
        part = cost[cost["kind"] == kind].set_index("tasks")
        cells = [
            f"{part.loc[n, 'seconds']:.2g} s, {part.loc[n, 'bytes'] / 1e9:.1f} GB"
            if n in part.index
            else "-"
            for n in sizes
        ]
        rows += f"| {words} | {' | '.join(cells)} |\n"
    rank = pd.read_csv(_RESULTS / "rank.csv").set_index("way")
    check, many = rank.loc["84 candidates, --check (make rank)"], rank.loc["10,000 candidates"]
    messages = cost.drop_duplicates("tasks").set_index("tasks")["messages"]
    each = messages.iloc[0] / messages.index[0]
    text = f"""# How long will mine take?

This page gives processor time and memory for several sizes. They were measured with one thread of
an {cost["cpu"].iloc[0]} processor by `benchmarks/cost.py` and `rank.py`. `make pages` writes this
page from the tables in `benchmarks/results`.

{head}{rows} The traffic is a halo exchange with {each:.0f} messages per task. The time of a
simulation is proportional to the packet-hops, the sum of the hops of all packets.

| what | processor time | memory |
|---|---:|---:|
| `toruscast rank`, 512 tasks, 84 candidates, all simulated (`--check`) | \
{check["processor_seconds"]:.1f} s | {check["peak_gb"]:.2f} GB |
| `toruscast rank`, 512 tasks, 10,000 candidates | {many["processor_seconds"]:.0f} s | \
{many["peak_gb"]:.2f} GB |

Unless a wheel contains the kernels, the first run on a machine compiles them in about a minute.
`--jobs` uses more threads, `--workers` uses processes, and `--cluster` uses other machines
([use a cluster](../guide/use-a-cluster.md)).

**Too long?** For messages of gigabytes, use `toruscast simulate --flows`, or `--error 0.03`, which
merges packets. For many candidates, use `toruscast rank`, which simulates only a few of them;
`--seconds 60` limits the time. `rank` reports in advance if the simulations will take more than two
minutes.
"""
    return {"reference/duration.md": text}
