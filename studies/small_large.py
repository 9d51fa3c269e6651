"""Predictions for large tori by models that are trained on small ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast.training import FEATURE_SETS, build_samples, rcc_told_apart, regret

from .study import Findings, Inputs, Study, Target
from .unseen.graphs import draw

FAMILIES = (
    *("27-point stencil", "unstructured mesh", "multigrid"),
    *("transposes", "sharded model", "particles"),
)
OTHERS = ("octree", "butterfly")
"""Families of graphs that are not in the training set."""
SMALL, LARGE = ((4, 4, 4), (4, 4, 8)), ((8, 8, 8), (8, 8, 16))
# Packets per message in the byte-weighted mean.
PACKETS = 16.0
MAPPINGS = 24
BOUND = "release bound"


def samples(family: str, shape: tuple[int, ...], n_jobs: int) -> pd.DataFrame:
    """Simulate mappings of a graph of a family onto a torus that it fills."""
    torus, number = tc.Torus(shape), (*FAMILIES, *OTHERS).index(family)
    rng = np.random.default_rng([*shape, number])
    comm = draw(family, torus.n_nodes, torus.network.payload, PACKETS, rng)
    mappings = tc.strategies.sample(comm, torus, n=MAPPINGS, seed=1)
    names = (*FEATURE_SETS["coarse"], *FEATURE_SETS["relative"], "coarse_time")
    names = tuple(dict.fromkeys((*names, "lower_bound", "release_bound")))
    table = build_samples([(comm, torus, mappings)], n_jobs=n_jobs, level=2, features=names)
    return table.assign(family=family)


def run(inputs: Inputs) -> Findings:
    """Train on the small tori of all families together, and predict each large one."""
    known, wanted = (
        pd.concat([samples(name, shape, inputs.n_jobs) for name in names for shape in shapes])
        for names, shapes in ((FAMILIES, SMALL), ((*FAMILIES, *OTHERS), LARGE))
    )
    models = {
        "routes": tc.TimePredictor("relative", "slowdown"),
        "coarse simulation": tc.TimePredictor("coarse", "correction"),
    }
    for model in models.values():
        model.fit(known, known["time"], groups=known["torus"])
    rows: list[dict[str, object]] = []
    for (family, torus), own in wanted.groupby(["family", "torus"], sort=False):
        seen, case = own["time"].to_numpy(), {"family": family, "torus": torus}
        said = {BOUND: own["release_bound"], **{n: m.predict(own) for n, m in models.items()}}
        for name, times in said.items():
            order = {"rcc": rcc_told_apart(seen, times), "regret": regret(seen, times)}
            rows.append(case | {"orders": name} | order)
            if name in models:
                low, high = models[name].predict_interval(own, 0.9).T
                rows[-1]["held"] = float(((low <= seen) & (seen <= high)).mean())
    table = pd.DataFrame(rows)
    order, inside = (
        table.pivot_table(what, ["family", "torus"], "orders", sort=False)
        for what in ("rcc", "held")
    )
    shown, targets = order.join(inside.add_prefix("held, ")), []
    for name in models:
        behind = float((order[BOUND] - order[name]).max())
        held = float(inside[name].mean())
        held_others = float(inside.loc[list(OTHERS), name].mean())
        targets += [
            Target(f"mean RCC, {name}", float(order[name].mean())),
            Target(f"RCC behind the {BOUND} at worst, {name}", behind, 0.0, "at most"),
            Target(f"90 % intervals hold, {name}", held, 0.85),
            Target(f"90 % intervals hold (not above), {name}", held, 0.95, "at most"),
            Target(f"90 % intervals hold, {name}, families not learned from", held_others, 0.85),
        ]
    others = " and ".join(OTHERS)
    return Findings(
        f"{MAPPINGS} mappings of each graph are simulated. Messages have {PACKETS:g} packets on "
        "average, weighted by bytes. Each model is trained on the small tori of all six "
        "families. The model *routes* predicts the slowdown from features of the routes. The "
        "model *coarse simulation* predicts the correction of a simulation with longer packets, "
        "as `toruscast train` does.\n\n"
        f"The {BOUND} needs no training. Its mean RCC is {order[BOUND].mean():.3f}. The mean RCC "
        f"of *routes* is {targets[0].reached:.3f}, in the worst case {targets[1].reached:.3f} "
        "below that of the bound. The mean RCC of *coarse simulation* is "
        f"{targets[5].reached:.3f}, in the worst case {targets[6].reached:.3f} below. The 90 % "
        f"intervals of the two models contain {targets[2].reached:.0%} and "
        f"{targets[7].reached:.0%} of the times. For {others}, which are not in the training set, "
        f"they contain {targets[4].reached:.0%} and {targets[9].reached:.0%}. Cross-validation "
        "keeps the mappings of a torus in one fold (`fit(..., groups=)`), and the intervals "
        "widen with the size of the torus.",
        {"cases": table},
        {"RCC, and share of times within intervals": shown.reset_index()},
        tuple(targets),
    )


STUDY = Study(
    name="small_large",
    title="Large tori predicted from small ones",
    text=(
        "This study trains models on small tori and tests them on large ones. The training set "
        "has six families of graphs on tori of 64 and 128 nodes. The test set has these and two "
        "other families, on tori of 512 and 1,024 nodes. **All times are simulated; none was "
        "measured on a machine.**"
    ),
    needs="nothing",
    parts={"From small to large": run},
)
