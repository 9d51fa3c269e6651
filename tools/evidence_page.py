"""Make the page of evidence: a chart, three sentences and the tables of each study.

Every number is read from a table of docs/studies or of benchmarks/results.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from toruscast.answers import svg

ROOT = Path(__file__).parents[1]
_TABLES = ROOT / "docs/studies/tables"
_RESULTS = ROOT / "benchmarks/results"
HEAD = """# Evidence

This page summarises each study with a chart, its results and its tables. `make pages` writes the
page from these tables. The full texts are in the repository, in `studies/results` and `benchmarks`.

RCC (rank correlation coefficient) is the share of pairs of mappings that are in the right order. It
is 1 if all pairs are in the right order, and 0.5 if the order is random. Studies that count only
pairs whose times differ by more than 5 % say so. Regret is how much longer the chosen mapping takes
than the fastest one. Times are simulated unless the text says that they were measured.
"""
TAIL = """
## Without a chart

Four more texts are in the repository:

- `studies/results/presets.md` compares the numbers of accelerators with public measurements.
- `studies/results/layouts.md` compares pairs of layouts that have public times.
- `benchmarks/slices.md` ranks slices for three public models.
- `benchmarks/large-plan.md` predicts the cost of 100,000 mappings of a million tasks.
"""
_ROUNDS, _SUM = "rounds, averaged networks", "sum, simulated"


class Finding(NamedTuple):
    """A study: the bars of its chart, its sentences, and its tables of results."""

    title: str
    bars: Mapping[str, float]
    unit: str
    text: str
    tables: tuple[str, ...]


def pages() -> dict[str, str]:
    """Return the page and its charts by their paths in docs."""
    entries = {name: entry() for name, entry in ENTRIES.items()}
    text = HEAD + "".join(_section(name, entry) for name, entry in entries.items()) + TAIL
    charts = {f"figures/evidence/{name}.svg": _chart(each) for name, each in entries.items()}
    return {"evidence.md": text, **charts}


def _section(name: str, entry: Finding) -> str:
    links = [
        f"`{path}`" if path.startswith("benchmarks") else f"[{path}](studies/tables/{path})"
        for path in entry.tables
    ]
    return (
        f"\n## {entry.title}\n\n![{entry.title}: {entry.unit}](figures/evidence/{name}.svg)\n\n"
        f"*Bars: {entry.unit}.*\n\n"
        f"{textwrap.fill(entry.text, 100)}\n\nTables: {', '.join(links)}.\n"
    )


def _chart(entry: Finding) -> str:
    names, values = list(entry.bars), [float(value) for value in entry.bars.values()]
    unit = "%" if entry.unit.endswith("%") else ""
    return svg.standalone_svg(svg.draw_bars(names, [(entry.title, "best", values)], 1.0, unit))


def _live() -> Finding:
    gains = _table("real_mpi_live/gains").set_index("program")["searched"]
    order = _table("real_mpi_live/order").set_index("program")[_ROUNDS].drop("mean")
    named = _table("real_mpi_live/named").set_index("program")[_ROUNDS]
    here = gains[gains.index.str.endswith(", 4x4")].sort_values(ascending=False)
    other = gains.drop(here.index)
    text = f"""toruscast traced {len(here)} MPI programs, searched for a mapping of each, and
launched each program with its mapping on an emulated 4x4 torus of real TCP links. Their measured
times are up to {_percent(here.max())} shorter and at most {_percent(-here.min())} longer than with
the default mapping (median {_percent(here.median())} shorter). Other tori were measured
with earlier versions of the search. There the largest gain is {_percent(other.max())},
and one program took {_percent(-other.min())} longer ({other.idxmin()}).
Over all {len(order)} runs, the mean RCC of pairs that differ by more than 5 % is
{order.mean():.3f}, and the lowest is {order.min():.3f}. The mapping ranked first took
at most {_percent(named.max())} longer than the best one."""
    bars = {name.removesuffix(", 4x4").replace("LAMMPS, ", ""): gain for name, gain in here.items()}
    return Finding(
        "Real MPI programs, launched and measured",
        bars,
        "measured time saved on 4x4, %",
        text,
        ("real_mpi_live/gains.csv", "real_mpi_live/order.csv", "real_mpi_live/named.csv"),
    )


def _real_mpi() -> Finding:
    order = _table("real_mpi/order").set_index("program")
    named = _table("real_mpi/named")
    mean = order.loc["mean"]
    bars = {
        "profile, one network": mean[_SUM],
        "trace, one network": mean["rounds, simulated"],
        "trace, many networks": mean[_ROUNDS],
    }
    text = f"""Four MPI programs were measured with 16 to 19 mappings each, to compare traces with
profiles. RCC is {mean[_SUM]:.3f} for a profile with the sum of all bytes, and
{mean["rounds, simulated"]:.3f} for a trace, which also has the rounds of messages. It is
{mean[_ROUNDS]:.3f} if times are means over several networks, whose rules were chosen on the same
programs. The mapping chosen from a trace took at most {_percent(named[_ROUNDS].max(), 1)} longer
than the best measured one. The mapping chosen from a profile took up to
{_percent(named[_SUM].max())} longer."""
    return Finding(
        "Profile or trace, measured",
        bars,
        "RCC",
        text,
        ("real_mpi/order.csv", "real_mpi/named.csv", "real_mpi/errors.csv"),
    )


def _emulated() -> Finding:
    table = _table("emulated_torus/forecasts")
    lines = table[table["method"] == "line and features"].set_index("case")
    text = f"""57 mappings of two patterns were measured on an emulated 4x4x4 torus of TCP links.
A model trained on two thirds of them predicts the others with RCC {lines["rcc_apart"].min():.3f}
to {lines["rcc_apart"].max():.3f} for pairs that differ by more than 5 %. The 90 % intervals
contain {_percent(lines["within"].min())} to {_percent(lines["within"].max())} of the held-out
times."""
    return Finding(
        "Learned from measured runs",
        lines["rcc_apart"].to_dict(),
        "RCC of pairs more than 5 % apart",
        text,
        ("emulated_torus/forecasts.csv", "emulated_torus/noise.csv"),
    )


def _decisions() -> Finding:
    race = pd.read_csv(_RESULTS / "race-summary.csv").set_index("candidates")
    sets = int(race["sets"].sum())
    decided = {n: round(float((race[n] * race["sets"]).sum())) for n in ("proved", "sure")}
    text = f"""`rank` found the fastest of 84 mappings in {_percent(race["fastest"].mean())} of
{sets} sets, from five captured applications, after {race["simulations"].min():.0f} to
{race["most_simulations"].max():.0f} simulations. {decided["proved"]} answers were proved, and
{decided["sure"]} were 95 % sure. RCC over all candidates is {race["rcc"].min():.2f} to
{race["rcc"].max():.2f}. 90 % intervals contain {_percent(race["coverage"].min())} to
{_percent(race["coverage"].max())} of the times that were not simulated."""
    bars = race["simulations"].to_dict()
    title = "Simulations until the fastest is known"
    return Finding(
        title, bars, "median number of simulations", text, ("benchmarks/results/race-summary.csv",)
    )


def _unseen() -> Finding:
    cases = _table("unseen/cases")
    mean = cases.groupby("orders")["rcc_5"].mean()
    regret = cases.groupby("orders")["regret"].mean()
    orders = ["release bound", "default model", "16 packets in one", "4 packets in one"]
    text = f"""The default model is tested on {cases["case"].nunique()} randomly drawn applications
that are not in its training set. Simulations with real packets give the
correct order. Without any simulation, RCC is {mean["default model"]:.3f} and regret is
{_percent(regret["default model"], 1)}. With coarse simulations, in which sixteen packets are merged
into one, RCC is {mean["16 packets in one"]:.3f} and regret is
{_percent(regret["16 packets in one"], 1)}. Predictions are worst for long messages
and adaptive routing."""
    return Finding(
        "Applications never seen",
        mean[orders].to_dict(),
        "mean RCC of pairs more than 5 % apart",
        text,
        ("unseen/cases.csv", "unseen/times.csv"),
    )


def _larger() -> Finding:
    cases = _table("small_large/cases")
    mean = cases.groupby("orders")["rcc"].mean()
    held = cases.groupby("orders")["held"].mean()
    text = f"""Models were trained on six families of graphs on 64 and 128 nodes, with 24 mappings
of each, and predict times on 512 and 1,024 nodes. RCC is {mean["routes"]:.3f} for a model that uses
features of the routes, and {mean["coarse simulation"]:.3f} for a coarse simulation with a learned
correction. It is {mean["release bound"]:.3f} for the release bound, which needs no training. The
90 % intervals of the two models contain {_percent(held["routes"])} and
{_percent(held["coarse simulation"])} of the times."""
    return Finding(
        "Larger machines from small ones", mean.to_dict(), "RCC", text, ("small_large/cases.csv",)
    )


def _sc13() -> Finding:
    best = _table("sc13/hybrids-16384-best")
    moves = best[best["varies"] > 1.3]
    transfer = _table("sc13/transfer").set_index("learner")
    text = f"""The experiments of Jain et al. (SC'13) were repeated with simulated times. For 16,384
tasks, the best hybrid set of features reaches RCC {best["rcc"].min():.2f} to
{best["rcc"].max():.2f}. The paper reports .98 to .995 for the 3D Halo and Sub A2A, on measured
times. The best hybrid set is better than the prior features in
{(moves["rcc"] > moves["prior"]).sum()} of the {len(moves)} cases whose times vary. If the hybrid H3
is trained on 16,384 tasks and applied to 65,536, its RCC is {transfer.loc["H3", "rcc"]:.3f}
(published: .975). A coarse simulation with a learned correction reaches
{transfer.loc["sketch, corrected", "rcc"]:.3f}."""
    bars = {f"{row.benchmark}, {row.size}": row.rcc for row in best.itertuples()}
    names = ("sc13/hybrids-16384-best.csv", "sc13/transfer.csv", "sc13/figures.csv")
    return Finding("The published experiments, repeated", bars, "RCC", text, names)


def _simgrid() -> Finding:
    table = _table("simgrid/applications").set_index("application")
    text = f"""SimGrid and our simulators order 24 mappings of each shipped application. If our flow
simulator makes the same assumptions as SimGrid, the order is the same (RCC
{table["links alone"].min():.3f}). If it also models headers, software, FIFOs and reception, RCC is
{table["whole machine"].min():.3f} or more. The packet simulator also models finite buffers, and its
RCC is {table["packets"].min():.3f} to {table["packets"].max():.3f}."""
    names = ("simgrid/applications.csv", "simgrid/single-messages.csv")
    return Finding("Another simulator", table["packets"].to_dict(), "RCC", text, names)


def _fugaku() -> Finding:
    table = _table("fugaku/fugaku-summary")
    model = table[table["method"] == "model"].set_index("shape")
    text = f"""Collective algorithms on Fugaku are ranked with constants from eight nodes, and
compared with public measurements. The mean RCC is {model.loc["4x4x4", "mean RCC"]:.3f} on 4x4x4
and {model.loc["64x64", "mean RCC"]:.3f} on 64x64. On 64x64, the algorithm
ranked first takes {_percent(model.loc["64x64", "median regret@1"], 1)} longer than the fastest one
(median)."""
    names = ("fugaku/fugaku-summary.csv", "fugaku/fugaku-collectives.csv")
    return Finding(
        "Collectives on Fugaku, measured", model["mean RCC"].to_dict(), "RCC", text, names
    )


def _blue_gene() -> Finding:
    routes = _table("blue_gene/static-routes")
    counts = _table("blue_gene/link-counts").set_index("region")["correlation_all"]
    share = routes["reproduced"].sum() / routes["routes"].sum()
    text = f"""Computed routes are compared with routes that were recorded on Blue Gene/Q, and
computed link loads with packets that were counted on Blue Gene/P. {_percent(share)} of
{routes["routes"].sum():,} routes agree in every link. The correlation of link loads with counted
packets is {counts.max():.4f} in the code region whose pattern is known, and {counts.min():.2f} to
{counts.drop(counts.idxmax()).max():.2f} in regions whose pattern we had to guess."""
    bars = {f"region {region}": value for region, value in counts.items()}
    names = ("blue_gene/static-routes.csv", "blue_gene/link-counts.csv")
    return Finding(
        "Routes and link counters of Blue Gene",
        bars,
        "correlation of link loads with counted packets",
        text,
        names,
    )


def _blue_waters() -> Finding:
    table = _table("blue_waters/contention-bandwidths")
    mean = table[table["n_ranks"] == 128].groupby("dimension")["bandwidth"].max()
    grid = _table("blue_waters/multigrid").query("rows == 'all'").set_index("forecast")["rcc"]
    text = f"""Predictions are compared with published times of Blue Waters. Its torus has a
different bandwidth along each dimension (X {mean["x"]:.2f}, Y {mean["y"]:.2f}, Z {mean["z"]:.2f}
GB/s). For 376 times of a multigrid solver, RCC is {grid["byte-hops alone"]:.3f} for byte-hops,
{grid["constants alone"]:.3f} for a model with fitted constants, and
{grid["trees on the columns"]:.3f} for regression trees."""
    names = ("blue_waters/contention-bandwidths.csv", "blue_waters/multigrid.csv")
    return Finding("Contention on Blue Waters, measured", grid.to_dict(), "RCC", text, names)


def _meshes() -> Finding:
    table = pd.read_csv(_RESULTS / "meshes.csv")
    gain = table.groupby("step")["jax_over_ours"].agg(["mean", "max"])
    text = f"""Layouts of {len(table.drop_duplicates(["slice", "mesh"]))} meshes on TPU slices are
compared with those of `jax.experimental.mesh_utils`. Depending on the traffic of a step, ours are
on average {gain["mean"].min():.2f} to {gain["mean"].max():.2f} times as fast. The largest speedup
is {gain["max"].max():.2f}, and none of our layouts is slower. The speedup is largest for rings over
part of a dimension that does not wrap."""
    names = ("benchmarks/results/meshes.csv", "benchmarks/results/make_mesh.csv")
    return Finding(
        "Meshes compared with JAX's own order",
        gain["mean"].to_dict(),
        "mean speedup over JAX's layouts",
        text,
        names,
    )


def _search() -> Finding:
    table = pd.read_csv(_RESULTS / "search.csv")
    table = table[table["objective"] == "time"]
    value = table.pivot_table(index="case", columns="method", values="value")
    ours = value["search in 30 s"].fillna(value["search in 10 s"])
    bound = table.groupby("case")["bound"].min()
    gain = (1 - ours / value["scotch"]).sort_values(ascending=False)
    text = f"""Mappings that `toruscast search` finds in 30 s are compared with the best of 20 runs
of Scotch on the same graphs. Their times are {_percent(gain.median())} shorter in the median,
and at most {_percent(gain.max())} shorter. {(gain < 0).sum()} of {len(gain)} times are longer. For
{(ours <= 1.001 * bound).sum()} of the graphs the time equals the lower bound, so no mapping is
faster."""
    names = ("benchmarks/results/search.csv",)
    return Finding(
        "Search compared with Scotch, time saved", gain.to_dict(), "time saved, %", text, names
    )


def _percent(share: float, decimals: int = 0) -> str:
    return f"{100 * share:.{decimals}f} %"


def _table(name: str) -> pd.DataFrame:
    return pd.read_csv(_TABLES / f"{name}.csv")


ENTRIES = {
    "real_mpi_live": _live,
    "real_mpi": _real_mpi,
    "emulated_torus": _emulated,
    "decisions": _decisions,
    "unseen": _unseen,
    "small_large": _larger,
    "sc13": _sc13,
    "simgrid": _simgrid,
    "fugaku": _fugaku,
    "blue_gene": _blue_gene,
    "blue_waters": _blue_waters,
    "meshes": _meshes,
    "search": _search,
}
