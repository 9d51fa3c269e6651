"""Which communications a quoted figure may be of: the same scores on other choices of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.training.metrics import r2, rcc

from .amg_candidates import LEARNERS, OURS, Learner, byte_hops, named_trees, plain_trees

Rows = Callable[[pd.DataFrame], pd.DataFrame]

ANISOTROPIC = "aniso"


def _matrices(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["matrix"].astype(bool)]


def _aware(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["node_aware"].astype(bool)]


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["node_aware"].astype(bool)]


def _anisotropic(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["file"].str.contains(ANISOTROPIC)]


def _once(table: pd.DataFrame) -> pd.DataFrame:
    """The last of what was repeated in a job: what a table by level and name keeps."""
    return table.drop_duplicates(["file", "level", "operator", "matrix", "node_aware"], keep="last")


def _other_traffic(table: pd.DataFrame) -> pd.DataFrame:
    """Communications of the same byte-hops in a job count once."""
    return table.drop_duplicates(["file", "byte_hops"])


ROW_SETS: dict[str, Rows] = {
    "all": lambda table: table,
    "all, repeats once": _once,
    "plain": _plain,
    "node-aware": _aware,
    "matrices": _matrices,
    "matrices, repeats once": lambda table: _once(_matrices(table)),
    "matrices, equal byte-hops once": lambda table: _other_traffic(_matrices(table)),
    "anisotropic problem": _anisotropic,
    "anisotropic problem, matrices": lambda table: _anisotropic(_matrices(table)),
    "anisotropic problem, matrices, plain": lambda table: _plain(_anisotropic(_matrices(table))),
    "anisotropic problem, matrices, node-aware": (
        lambda table: _aware(_anisotropic(_matrices(table)))
    ),
}


def row_sets(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Return how the quoted forecasts and that of this project do on sets of rows.

    Parameters
    ----------
    train, test : DataFrame
        Columns as `studies.read_amg_messages` gives them.

    Returns
    -------
    DataFrame
        A row per set that has rows to learn from and three to forecast: ``byte_hops_rcc``; RCC and
        R^2 of logarithms of trees learned on these rows only, from the columns (``trees_``) and
        with processes, operators and kinds beside (``named_trees_``); of the model of this project
        learned on all rows (``ours_``).
    """
    ours = pd.Series(LEARNERS[OURS](train, test), index=test.index)
    trees: dict[str, Learner] = {"trees": plain_trees, "named_trees": named_trees}
    rows = []
    for name, choose in ROW_SETS.items():
        known, asked = choose(train), choose(test)
        if not len(known) or len(asked) < 3:
            continue
        observed = np.log(asked["time"].to_numpy(float))
        row = {"set": name, "rows": len(asked)}
        row["byte_hops_rcc"] = rcc(observed, byte_hops(known, asked))
        for learner, learn in trees.items():
            row |= _scores(learner, observed, np.log(learn(known, asked)))
        row |= _scores("ours", observed, np.log(ours[asked.index].to_numpy()))
        rows.append(row)
    return pd.DataFrame(rows)


def _scores(
    name: str, observed: NDArray[np.float64], predicted: NDArray[np.float64]
) -> dict[str, float]:
    return {f"{name}_rcc": rcc(observed, predicted), f"{name}_r2": r2(observed, predicted)}


def note(found: pd.DataFrame, hops: float, order: float, fit: float) -> str:
    """Return which sets come close to three quoted scores, and where named trees do better.

    Parameters
    ----------
    found : DataFrame
        Of `row_sets`.
    hops, order, fit : float
        What is quoted: RCC of byte-hops, RCC and R^2 of trees.

    Returns
    -------
    str
        Sentences for the page.
    """
    by_hops = found.iloc[(found["byte_hops_rcc"] - hops).abs().to_numpy().argmin()]
    apart = {
        name: (found[[f"{name}_rcc", f"{name}_r2"]] - [order, fit]).abs().max(axis=1)
        for name in ("trees", "named_trees")
    }
    name = min(apart, key=lambda one: apart[one].min())
    by_trees = found.iloc[apart[name].to_numpy().argmin()]
    better = found[
        (found["named_trees_rcc"] > found["ours_rcc"])
        & (found["named_trees_r2"] > found["ours_r2"])
    ]
    named = ", ".join(f"'{one}'" for one in better["set"])
    return (
        f"No row set of `gemini_amg_row_sets` ({len(found)}) gives the figures quoted, byte-hops "
        f"{hops}, trees {order} and {fit}, at once. Byte-hops come closest on "
        f"'{by_hops['set']}' ({by_hops['byte_hops_rcc']:.3f}), where trees reach RCC "
        f"{by_hops['trees_rcc']:.3f} and R^2 {by_hops['trees_r2']:.3f}; trees on "
        f"'{by_trees['set']}' ({by_trees[f'{name}_rcc']:.3f} and {by_trees[f'{name}_r2']:.3f}), "
        f"where byte-hops reach {by_trees['byte_hops_rcc']:.3f}. Trees that also see processes, "
        "operators and kinds, learned on these rows only, do better than the model of this project "
        f"in both measures on: {named or 'none'}."
    )
