"""The published figures that show single mappings, drawn from our samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeRegressor

from toruscast import TimePredictor
from toruscast.training.evaluation import random_splits

from ..study import Chart, Findings, Inputs
from .plan import SMALL
from .samples import load

_PRIOR = ("max_dilation", "avg_bytes, MB", "max_bytes, MB")
_REGIONS, _SEEN = 5, ("max_bytes, MB", "max_FIFO")
_TIME, _RANK = "time, ms", "mapping, by its time"
# Learners of the sorted curves by their names: features and target.
_CURVES = {"prior": ("prior", "time"), "H3": ("H3", "time"), "own": ("coarse", "correction")}


def figures(inputs: Inputs) -> Findings:
    """Draw figures 1, 3, 9 and 14: features beside times, regions of a tree, sorted times."""
    halo = load(inputs, SMALL, ("16 KB",), ("2D Halo",))
    for name in ("avg_bytes", "max_bytes"):
        halo[f"{name}, MB"] = halo[name] / 1e6
    times = 1e3 * halo["time"]
    shares = {name: float(np.corrcoef(halo[name], times)[0, 1] ** 2) for name in _PRIOR}
    first = pd.concat(
        pd.DataFrame({"feature": halo[n], _TIME: times, "panel": f"{n}: R^2 {shares[n]:.2f}"})
        for n in _PRIOR
    )
    tree = DecisionTreeRegressor(max_leaf_nodes=_REGIONS, random_state=0)
    mean = tree.fit(halo[[*_SEEN]], times).predict(halo[[*_SEEN]])
    third = halo[[*_SEEN]].assign(series=[f"{each:.2f} ms" for each in mean], panel="")
    third = third.iloc[np.argsort(mean, kind="stable")]
    curves = pd.concat(
        _sorted(table.reset_index(drop=True)).assign(panel=name)
        for name, table in {
            "Sub A2A, 16 KB": load(inputs, SMALL, ("16 KB",), ("Sub A2A",)),
            "pF3D": load(inputs, SMALL, benchmarks=("pF3D",)),
        }.items()
    )
    return Findings(
        "Features of the 2D Halo of 16 KB and its times (figure 1 of the paper; R^2 is that of a "
        f"line), the regions into which a tree with {_REGIONS} leaves divides two features, with "
        "the mean time in each (figure 3), and the 28 predicted mappings of one split, sorted by "
        "time (figures 9 and 14).",
        {"figure-1": first, "figure-3": third, "figures-9-14": curves},
        charts={
            "figure-1": Chart(
                "panels", first, "feature", _TIME, "panel", "2D Halo, 16 KB: features and times"
            ),
            "figure-3": Chart("panels", third, *_SEEN, "panel", "Regions and their mean time"),
            "figures-9-14": Chart(
                "panels", curves, _RANK, _TIME, "panel", "Forecast and simulated times"
            ),
        },
    )


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the times of the mappings held out of a split in order, and what is forecast."""
    ((train, test),) = random_splits(len(table), 1)
    known, wanted = table.iloc[train], table.iloc[test].sort_values("time")
    said = {"simulated": wanted["time"].to_numpy()}
    for name, (features, target) in _CURVES.items():
        model = TimePredictor(features, target, calibration_folds=0)  # type: ignore[arg-type]
        said[name] = model.fit(known, known["time"]).predict(wanted)
    rows = pd.DataFrame({name: 1e3 * times for name, times in said.items()})
    return rows.rename_axis(_RANK).reset_index().melt(_RANK, var_name="series", value_name=_TIME)
