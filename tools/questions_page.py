"""Two pages that answer what a user asks first: how accurate it is, and how long it takes.

Every number is read from a table of docs/studies or of benchmarks/results.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from toruscast.answers import svg

ROOT = Path(__file__).parents[1]
_TABLES = ROOT / "docs/studies/tables"
_RESULTS = ROOT / "benchmarks/results"
_WORK = {
    "make a mapping": "make a mapping",
    "level-1 features": "features of its routes (`features`)",
    "simulation": "simulate it (`simulate`)",
    "level-2 features": "simulate it, with all counters (`features --level 2`)",
}


def accuracy() -> str:
    """Return the page about accuracy."""
    measured, other, unseen = _measured(), _simulators(), _unseen()
    best = measured.loc["mean"]
    named = pd.read_csv(_TABLES / "real_mpi/named.csv").set_index("program")
    cases = pd.read_csv(_TABLES / "unseen/cases.csv")
    regret = cases.groupby("orders")["regret"].mean()
    return f"""# How accurate is it for me?

This page says how often the order of two mappings is right, and what to do where that is not
enough. `make pages` writes it from the tables of the [studies](../studies/README.md). RCC is the
share of pairs of mappings in the right order: 1 is all of them, 0.5 is chance. Pairs whose times
differ by less than 5 % do not count.

![Pairs in the right order, by question](../figures/accuracy.svg)

## My program, measured on a machine

{_table(measured, ("a profile (sum)", "a trace (rounds)", "a trace, `--network unknown`"))}

Four MPI programs ran on a small torus of real TCP links, 16 to 19 mappings each
([how](../studies/real_mpi.md)); the networks that are averaged were chosen on the same programs.
The mapping that a trace names as fastest took at most
{100 * named["rounds, averaged networks"].max():.1f} % longer than the fastest measured one; the one
that a profile names, up to {100 * named["sum, averaged networks"].max():.0f} %.

**Not enough?** Record the rounds: `toruscast trace -- mpirun ./app`
({best.iloc[0]:.3f} becomes {best.iloc[1]:.3f} in the mean). Where the rules of the network are not
public, average over networks: `toruscast rank --network unknown` ({best.iloc[2]:.3f}). Then run a
few mappings, and let the times decide: `toruscast plan`
([plan my runs](../guide/plan-my-runs.md)).

## Another simulator

{_table(other, ("flows, links alone", "flows, whole machine", "packets"))}

RCC against SimGrid on the shipped applications, 24 mappings each
([how](../studies/simgrid.md)). With the same assumptions the order is the same; what differs is
what SimGrid leaves out: headers, software, injection FIFOs and finite buffers.

**Not enough?** Give your network's constants: `toruscast calibrate` finds them from
microbenchmarks, `--network` sets them ([my machine](../guide/my-machine.md)).

## An application that the model has never seen

{_table(unseen, ("short messages", "long messages", "adaptive routing", "all"))}

RCC against simulations with real packets, {cases["case"].nunique()} applications drawn at random
([how](../studies/unseen.md)). *Release bound* and *default model* simulate nothing. Taking the
first of their order costs {100 * regret["release bound"]:.1f} % and
{100 * regret["default model"]:.1f} % of time in the mean, with packets merged by sixteen
{100 * regret["16 packets in one"]:.1f} %.

**Not enough?** `toruscast rank` simulates the candidates that may be the fastest by itself, until
the answer is proved or sure; `--simulations` lets it do more. For the level of times, train on your
application: `toruscast train` ([learn from my runs](../guide/learn-from-my-runs.md)).
"""


def accuracy_chart() -> str:
    """Return the picture of the page about accuracy."""
    measured, other, unseen = _measured(), _simulators(), _unseen()
    values = {
        "measured: a profile": measured.loc["mean"].iloc[0],
        "measured: a trace": measured.loc["mean"].iloc[1],
        "measured: unknown rules": measured.loc["mean"].iloc[2],
        "SimGrid: flows": other["whole machine"].mean(),
        "SimGrid: packets": other["packets"].mean(),
        "never seen: no simulation": unseen.loc["default model", "all"],
        "never seen: coarse packets": unseen.loc["16 packets in one", "all"],
    }
    bars = svg.draw_bars(list(values), [("RCC", "best", list(values.values()))], 1.0, "")
    return svg.standalone_svg(bars)


def duration() -> str:
    """Return the page about times of computation."""
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
    return f"""# How long will mine take?

This page gives processor time and memory by size. `make pages` writes it from the tables of
`benchmarks/results`, which `benchmarks/cost.py` and `rank.py` measured on one thread
of an {cost["cpu"].iloc[0]} processor.

{head}{rows}
A halo exchange of {each:.0f} messages a task. The time of a simulation goes with the packet-hops:
bytes over the size of a packet, times the hops of each.

| what | processor time | memory |
|---|---:|---:|
| `toruscast rank`, 512 tasks, 84 candidates, all simulated (`--check`) | \
{check["processor_seconds"]:.1f} s | {check["peak_gb"]:.2f} GB |
| `toruscast rank`, 512 tasks, 10,000 candidates | {many["processor_seconds"]:.0f} s | \
{many["peak_gb"]:.2f} GB |

Without the kernels of a wheel, the first run on a machine compiles them in about 20 seconds.
`--jobs` uses more threads, `--workers` processes,
`--cluster` other nodes ([use a cluster](../guide/use-a-cluster.md)).

**Too long?** Messages of gigabytes: `toruscast simulate --flows`, or `--error 0.03`, which merges
packets. Many candidates: `toruscast rank` simulates few of them; `--seconds 60` ends earlier.
`rank` says beforehand if more than two minutes of simulation lie ahead.
"""


def _measured() -> pd.DataFrame:
    table = pd.read_csv(_TABLES / "real_mpi/order.csv").set_index("program")
    return table[["sum, simulated", "rounds, simulated", "rounds, averaged networks"]]


def _simulators() -> pd.DataFrame:
    table = pd.read_csv(_TABLES / "simgrid/applications.csv").set_index("application")
    return table[["links alone", "whole machine", "packets"]]


def _unseen() -> pd.DataFrame:
    cases = pd.read_csv(_TABLES / "unseen/cases.csv")
    table = cases.pivot_table(index="orders", columns="group", values="rcc_5", aggfunc="mean")
    table["all"] = cases.groupby("orders")["rcc_5"].mean()
    return table.loc[
        ["release bound", "default model", "16 packets in one", "4 packets in one"],
        ["short", "long", "adaptive", "all"],
    ]


def _table(values: pd.DataFrame, names: tuple[str, ...]) -> str:
    lines = [f"| {values.index.name} | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for name, row in values.iterrows():
        cells = ("-" if pd.isna(value) else f"{value:.3f}" for value in row)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
