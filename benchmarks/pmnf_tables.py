"""Make the tables of `benchmarks/pmnf.md` from the CSV files of the scaling benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import markdown

REAL = {
    "relearn_2p.txt": "RELeARN, 2 parameters",
    "relearn_3p.json": "RELeARN, 3 parameters",
    "lulesh_daint_2p.json": "LULESH, Piz Daint",
    "lulesh_cpu_1p.json": "LULESH, processor",
    "lulesh_gpu_1p.json": "LULESH, GPU",
    "mpi_collectives_1p.json": "MPI collectives",
}
CASES = {
    "a": "1 parameter, 5 points",
    "b": "2 parameters, 25 points",
    "c": "3 parameters, 125 points",
    "bs": "2 parameters, 10 points",
    "cs": "3 parameters, 15 points",
    "ds": "4 parameters, 20 points",
}
NOISE = 0.05


def all_tables(results: Path) -> dict[str, str]:
    """Return every table of the page by the name of its marker."""
    return {
        "known": known_table(results / "pmnf-uniform-1.csv"),
        "held-out": real_table(results / "pmnf-real.csv"),
        "ms2": ms2_table(results / "ms2.csv"),
        "ms2-designs": designs_table(results / "ms2-designs.csv"),
        "ablations": ablation_table(results / "pmnf-ablations.csv"),
    }


def known_table(file: Path) -> str:
    """Return both fitters' errors on drawn functions with one level of noise."""
    rows = pd.read_csv(file)
    rows = rows[rows["noise"] == NOISE].set_index(["fitter", "case"])
    lines = []
    for case, name in CASES.items():
        own, peer = rows.loc[("toruscast", case)], rows.loc[("extrap", case)]
        lines.append(
            {
                "functions": f"{int(own['n'])}, {name}",
                "processor s": f"{own['cpu_s']:.2f} / {peer['cpu_s']:.1f}",
                "error": _percent(own["error_all_4x"], peer["error_all_4x"]),
                "exponents, %": _percent(own["lead_exact"], peer["lead_exact"]),
                "constants, %": _percent(own["constants_kept"], peer["constants_kept"]),
            }
        )
    return markdown.table(pd.DataFrame(lines))


def real_table(file: Path) -> str:
    """Return the median errors at the largest value of the first parameter."""
    rows = pd.read_csv(file)
    rows = rows[rows["held_out"] == "largest of first"].set_index(["fitter", "data"])
    lines = [
        {
            "data": name,
            "call paths": int(rows.loc[("toruscast", data), "paths"]),
            **{
                title: f"{100 * rows.loc[(fitter, data), 'median_error']:.3g}"
                for fitter, title in (
                    ("toruscast", "toruscast"),
                    ("extrap", "Extra-P"),
                    ("power law", "power law"),
                )
            },
        }
        for data, name in REAL.items()
    ]
    return markdown.table(pd.DataFrame(lines))


def ms2_table(file: Path) -> str:
    """Return the share of draws with the true terms of a model, at two levels of noise."""
    rows = pd.read_csv(file)
    ends = rows[rows["variation_pct"].isin(rows["variation_pct"].agg(["min", "max"]))]
    text = ends.assign(text=ends["exact"].map("{:.2g}".format))
    table = text.groupby(["model", "fitter"], sort=False)["text"].agg(" / ".join)
    view = table.unstack(sort=False).reset_index()
    return markdown.table(view.assign(model=[f"T({name})" for name in view["model"]]))


def designs_table(file: Path) -> str:
    """Return the draws with the true terms and the median error, for different sets of runs."""
    rows = pd.read_csv(file)
    exact = (rows["exact"] * rows["draws"]).round().astype(int).astype(str)
    rows["text"] = exact + " / " + rows["error_pct"].map("{:.3g}".format)
    rows["model"] = rows["model"].map("T({})".format)
    view = rows.pivot(index="design", columns="model", values="text")
    view = view.loc[rows["design"].unique(), rows["model"].unique()].reset_index()
    return markdown.table(view)


def ablation_table(file: Path) -> str:
    """Return the errors without each part of the fitter, in percent."""
    rows = pd.read_csv(file)
    for name in ("grids", "few points", "scattered", "real"):
        rows[name] = (100 * rows[name]).map("{:.3g}".format)
    rows.loc[0, "without"] = "nothing"
    return markdown.table(rows)


def _percent(own: float, peer: float) -> str:
    """Return two shares in percent; shares of the size of rounding errors become 0."""
    return " / ".join(f"{100 * (v if v > 1e-9 else 0):.3g}" for v in (own, peer))
