"""Fill the tables of the documentation from the CSV files of the benchmarks.

python benchmarks/report.py benchmarks/results .
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pmnf_tables
from targets import not_reached

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import markdown


def main(results: str, root: str) -> None:
    """Fill in the pages."""
    for page, tables in pages(Path(results)).items():
        fill(Path(root) / page, tables)


def pages(results: Path) -> dict[str, dict[str, str]]:
    """Return the tables of every page by the names of their markers."""
    return {
        "benchmarks/measurements.md": {
            "machine": machine(results),
            "race": columns(results, "race-summary", RACE),
            "rank": columns(results, "rank", RANK),
            "page": columns(results, "page", PAGE),
            "posterior": columns(results, "posterior", POSTERIOR, 5),
            "longer": columns(results, "longer", LONGER),
            "plan": columns(results, "plan", PLAN),
            "validation": validation(results),
            "flows": flows(results),
            "flow-errors": columns(results, "flow-errors", FLOW_ERRORS),
            "coarsening": coarsening(results),
            "error-targets": error_targets(results),
            "buffers": columns(results, "buffers", BUFFERS),
            "bisection": columns(results, "bisection", BISECTION),
            "kernels": kernels(results),
        },
        "benchmarks/meshes.md": {
            "steps": mesh_steps(results),
            "meshes": meshes(results),
            "make_mesh": make_mesh(results),
        },
        "benchmarks/slices.md": {"slices": slices(results)},
        "benchmarks/search.md": {"search": searches(results), "weights": search_weights(results)},
        "benchmarks/large-plan.md": {
            "cost": columns(results, "cost", COST),
            "cost-check": columns(results, "cost-check", COST_CHECK),
            "cost-plan": columns(results, "cost-plan", COST_PLAN),
            "workers": columns(results, "workers", WORKERS),
        },
        "benchmarks/simulator-kernel.md": {
            "cachegrind": columns(results, "cachegrind", CACHEGRIND)
        },
        "benchmarks/feature-cost.md": {"level-one": columns(results, "level-one", LEVEL_ONE)},
        "benchmarks/targets.md": {
            "race-targets": columns(results, "race-targets", RACE_TARGETS),
            "targets": markdown.table(not_reached(results)),
        },
        "docs/scaling/composition.md": {
            "composition": columns(results, "composition", COMPOSITION)
        },
        "benchmarks/pmnf.md": pmnf_tables.all_tables(results),
    }


def fill(page: Path, contents: dict[str, str]) -> None:
    """Replace the texts between the markers of a page."""
    text = page.read_text()
    for name, content in contents.items():
        mark = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
        text, found = re.subn(
            mark, lambda m, new=content: f"{m[1]}\n{new}\n\n{m[2]}", text, flags=re.S
        )
        if found != 1:
            raise ValueError(f"{page}: found {found} marks of {name}, expected one")
    page.write_text(text)


# Columns on a page, and their headings.
RACE = {
    "candidates": "candidates",
    "sets": "sets",
    "simulations": "simulations",
    "most_simulations": "most",
    "proved": "proved",
    "sure": "sure",
    "fastest": "fastest",
    "within_1_percent": "within 1 %",
    "rcc": "RCC",
    "coverage": "held",
    "cost": "cost",
}
RACE_TARGETS = {"what": "what", "target": "target", "reached": "reached"}
RANK = {
    "way": "way",
    "processor_seconds": "processor seconds",
    "times_less": "times less",
    "seconds": "seconds",
    "peak_gb": "peak memory, GB",
    "best_us": "best, us",
}
PAGE = {
    "tasks": "tasks",
    "nodes": "nodes",
    "candidates": "candidates",
    "processor_seconds": "processor seconds",
    "seconds": "seconds",
    "megabytes": "MB",
    "seconds_to_use": "seconds until it can be used",
}
POSTERIOR = {
    "common": "common",
    "smooth": "smooth",
    "own": "own",
    "length": "length",
    "log_likelihood": "log likelihood",
    "held": "held",
    "held_less_than_60_percent": "less than 60 % held",
}
LONGER = {
    "merged": "packets in one",
    "waiting": "time / bound - 1",
    "mappings": "mappings",
    "root_mean_square": "root mean square",
    "rcc": "RCC",
}
PLAN = {
    "case": "case",
    "run": "a run",
    "mappings": "mappings",
    "quarter": "a quarter",
    "right": "found, plan",
    "right_random": "found, random order",
    "first_right": "runs until found",
    "regret": "regret, plan",
    "regret_random": "regret, random order",
    "enough": "said enough",
    "kept": "of these right",
}
BUFFERS = {
    "buffer_packets": "buffer, packets",
    "rcc_lower_bound": "RCC, lower bound",
    "rcc_sketch": "RCC, sketch",
    "rcc_hop_of_41_ns": "RCC, 41 ns a hop",
    "median_slowdown": "median time / lower bound",
}
BISECTION = {
    "torus": "torus",
    "tasks": "tasks",
    "reached": "share of the bound",
    **{f"busy_{d}": f"busy, dimension {d}" for d in range(3)},
}
LEVEL_ONE = {
    "size": "size",
    "part": "part",
    "kernel": "kernel",
    "seconds": "seconds",
    "share": "share",
    "ns_a_message": "ns a message",
    "bytes_a_message": "bytes",
    "share_of_limit": "share of the limit",
}
FLOW_ERRORS = {
    "error": "error",
    "seconds": "seconds a mapping",
    "rcc": "RCC",
    "rcc_1_percent_apart": "RCC, over 1 % apart",
    "largest_error": "largest error of a time",
}
KERNELS = {
    "case": "case",
    "size": "size",
    "unit": "unit",
    "seconds": "seconds",
    "per_second": "units a second",
    "peer": "peer",
    "times_the_peer": "times as fast",
    "share_of_limit": "share of the limit",
    "peak_gb": "peak memory, GB",
}
SIZE = "16,384 tasks"
CACHEGRIND = {
    "tasks": "tasks",
    "instructions": "instructions",
    "first_level_misses": "first-level misses",
    "last_level_misses": "last-level misses",
    "mispredicted": "mispredicted branches",
    "ns": "ns",
    "instructions_a_cycle": "instructions a cycle",
}
COST = {"kind": "work", "tasks": "tasks", "seconds": "seconds", "bytes": "bytes"}
COST_CHECK = {
    "kind": "work",
    "measured_seconds": "measured, s",
    "forecast_seconds": "forecast, s",
    "seconds_error": "error",
    "memory_error": "error of the memory",
}
COST_PLAN = {
    "work": "work",
    "seconds_a_mapping": "seconds a mapping",
    "gb_a_worker": "GB a worker",
    "workers_a_node": "workers a node",
    "hours_by_jobs": "hours, a command for each node",
    "hours_by_one_command": "hours, one command",
}
WORKERS = {
    "way": "84 simulations by",
    "seconds": "seconds",
    "speed_up": "speed-up",
    "over_threads": "over two threads",
}
COMPOSITION = {
    "pattern": "pattern",
    "error": "error, %",
    "median_error": "median error, %",
    "largest_error": "largest error, %",
    "composed": "composed, microseconds",
    "measured": "measured, microseconds",
}


def columns(results: Path, name: str, headings: dict[str, str], rows: int | None = None) -> str:
    """Return columns of the first rows of a CSV file as a table; all rows by default."""
    values = pd.read_csv(results / f"{name}.csv")[list(headings)].iloc[:rows]
    return markdown.table(values.rename(columns=headings))


def kernels(results: Path) -> str:
    """Return the cost of the simulators at every size, and of other functions at some sizes."""
    rows = pd.read_csv(results / "kernels.csv")
    shown = rows[
        (rows["size"] == SIZE)
        | rows["case"].str.startswith("simulate")
        | (rows["size"] + rows["case"] == "1,048,576 taskslink_loads")
    ]
    return markdown.table(shown.reindex(columns=list(KERNELS)).rename(columns=KERNELS))


def machine(results: Path) -> str:
    """Return a sentence about the machine of the measurements."""
    first = pd.read_csv(results / "kernels.csv").iloc[0]
    return (
        f"Machine: {first['cpu']}, {first['cores']} cores; Python {first['python']}, numpy "
        f"{first['numpy']}, numba {first['numba']}."
    )


def validation(results: Path) -> str:
    """Return the order of mappings by both simulators, against other engines and measured runs."""
    keys = ["source", "case"]
    packets = pd.read_csv(results / "validation-summary.csv")
    flowing = pd.read_csv(results / "validation-flows.csv")[[*keys, "times", "rcc"]]
    rows = packets.merge(flowing.rename(columns={"rcc": "flows"}), how="outer")
    headings = {
        "source": "source",
        "case": "case",
        "times": "times",
        "rcc": "RCC",
        "rcc_5_percent_apart": "RCC, over 5 % apart",
        "factor": "factor",
        "median_error": "median error",
        "rcc_max_link_bytes": "RCC, busiest link",
        "flows": "RCC, flows",
    }
    return markdown.table(rows[list(headings)].rename(columns=headings))


def flows(results: Path) -> str:
    """Return the times of flows relative to packets, by the buffer behind a link."""
    names = {
        "rcc": ("RCC", ("mean",)),
        "rcc_lower_bound": ("RCC, lower bound", ("mean",)),
        "median_ratio": ("time / packets'", ("mean",)),
        "cost": ("cost", ("mean",)),
    }
    return _ranges(pd.read_csv(results / "flows.csv"), ["room", "bytes"], names)


def coarsening(results: Path) -> str:
    """Return the error of merged packets over all patterns and sizes."""
    names = {
        "least_ratio": ("least ratio", ("min",)),
        "largest_ratio": ("largest ratio", ("max",)),
        "rcc": ("RCC", ("min", "median")),
    }
    rows = pd.read_csv(results / "coarsening.csv").rename(columns={"coarsening": "packets in one"})
    return _ranges(rows, ["routing", "packets in one"], names)


def error_targets(results: Path) -> str:
    """Return the errors with an error target of 3 %, over all patterns and sizes."""
    rows = pd.read_csv(results / "error-targets.csv")
    names = {
        "mappings": ("mappings", ("sum",)),
        "merged": ("merged", ("sum",)),
        "largest_error": ("largest error", ("max",)),
        "rcc": ("RCC", ("min",)),
        "cost": ("cost", ("min", "max")),
    }
    return _ranges(rows, ["tasks"], names)


STEPS = {
    "exchange": "both neighbours, 4 MB each",
    "ring": "allreduce round a one-way ring",
    "training": "allreduce, allgather, allreduce; best algorithm",
    "two-way-ring": "allreduce round a two-way ring",
}
MESHES = {
    "slice": "slice",
    "mesh": "mesh",
    "jax_us": "JAX, us",
    "ours_us": "ours, us",
    "jax_over_ours": "times as fast",
    "layout": "layout",
}


def mesh_steps(results: Path) -> str:
    """Return the gains over JAX's layouts, by the traffic of a step along every axis."""
    rows = pd.read_csv(results / "meshes.csv")
    each = rows.groupby("step")["jax_over_ours"]
    found = pd.DataFrame(
        {
            "meshes": each.size(),
            "least": each.min(),
            "mean": each.mean(),
            "most": each.max(),
            "10 % faster or more": each.apply(lambda times: int((times >= 1.1).sum())),
        }
    )
    small = rows[rows["all_orders_us"].notna()]
    over = small.groupby("step")["ours_over_best"].max()
    found["of at most 8 devices: ours / best of all orders, at most"] = over
    found.index = found.index.map(STEPS)
    return markdown.table(found.rename_axis("each axis sends").reset_index())


def meshes(results: Path) -> str:
    """Return the mesh of each slice whose rings gain most."""
    rows = pd.read_csv(results / "meshes.csv")
    rows = rows[(rows["step"] == "exchange") & (rows["jax_over_ours"] >= 1.1)]
    rows = rows.sort_values("jax_over_ours", ascending=False, kind="stable")
    rows = rows.drop_duplicates("slice").sort_index()
    return markdown.table(rows[list(MESHES)].rename(columns=MESHES))


def make_mesh(results: Path) -> str:
    """Return the simulated speed-up of steps on our mesh over JAX's mesh."""
    rows = pd.read_csv(results / "make_mesh.csv")
    found = rows.groupby("step")[["mesh"]].count()
    for how in ("packets", "flows"):
        each = rows.groupby("step")[f"gain_{how}"].agg(["min", "mean", "max"])
        found[[f"{how}: least", "mean", "most"]] = each
        found = found.rename(columns={"mean": f"{how}: mean", "most": f"{how}: most"})
    found.index = found.index.map(STEPS)
    found = found.rename(columns={"mesh": "meshes"})
    return markdown.table(found.rename_axis("each axis sends").reset_index())


def slices(results: Path) -> str:
    """Return the slices of each model: all of TPU v5p, and the fastest of the other machines."""
    rows = pd.read_csv(results / "which_slice.csv")
    machine = rows["slice"].str.partition(":")[0]
    first = ~rows.assign(machine=machine).duplicated(["model", "machine"])
    rows = rows[first | (machine == "tpu_v5p")]
    rows = rows.assign(seconds=rows["time"])
    return markdown.table(rows[["model", "chips", "mesh", "slice", "seconds", "source"]])


def searches(results: Path) -> str:
    """Return a row for each case with the value of every method; searches take at most 30 s."""
    rows = pd.read_csv(results / "search.csv")
    unit = {"time": (1e6, "us"), "max_bytes": (1e-9, "GB"), "hop_bytes": (1e-9, "GB")}
    scale = rows["objective"].map(lambda name: unit[name][0])
    rows = rows.assign(value=rows["value"] * scale, bound=rows["bound"] * scale)
    by_case = rows.pivot_table("value", "case", "method", sort=False)
    names = [str(name) for name in by_case]
    searched = [name for name in names if name.startswith("search")]
    searched.sort(key=lambda name: float(name.split()[2]))
    quiet = [name for name in searched if not name.endswith(("120 s", "busy"))]
    last = by_case[quiet].ffill(axis=1)
    first = rows.groupby("case", sort=False)[["torus", "objective", "bound"]].first()
    found = pd.DataFrame(
        {
            "torus": first["torus"],
            "of": [f"{name}, {unit[name][1]}" for name in first["objective"]],
            **{name: by_case[name] for name in (*sorted({*names} - {*searched}), *searched)},
            "less than Scotch": (1 - last.iloc[:, -1] / by_case["scotch"]).map("{:.1%}".format),
            "bound": first["bound"],
        }
    )
    return markdown.table(found)


def search_weights(results: Path) -> str:
    """Return the order of a graph's mappings by weights that are fitted to other graphs."""
    goals = pd.read_csv(results / "search-goals.csv")
    tried = pd.read_csv(results / "search-weights.csv")
    hops = tried[tried["power"] == 0].set_index("graph")["tau_better_half"]
    goals = goals[goals["graph"] != "all"]
    found = goals.assign(hops=goals["graph"].map(hops))
    headings = {
        "graph": "graph",
        "power": "power",
        "hop_share": "share of hop-bytes",
        "tau": "tau, fit on the others",
        "tau_of_its_best": "tau, its best weights",
        "hops": "tau, hop-bytes",
    }
    return markdown.table(found[list(headings)].rename(columns=headings))


def _ranges(
    rows: pd.DataFrame, by: Sequence[str], names: dict[str, tuple[str, Sequence[str]]]
) -> str:
    """Return a row for each group with statistics, such as the range of a column."""
    words = {"min": "least ", "max": "largest "}
    groups = rows.groupby(list(by), sort=False)
    figures = {}
    for column, (heading, kinds) in names.items():
        for kind in kinds:
            word = "" if len(kinds) == 1 else words.get(kind, f"{kind} ")
            figures[f"{word}{heading}"] = groups[column].agg(kind)
    return markdown.table(pd.DataFrame(figures).reset_index())


if __name__ == "__main__":
    main(*sys.argv[1:])
