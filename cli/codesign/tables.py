"""Tables of ``toruscast codesign``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..tables import new_table, print_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.scaling import Application

# Half of the last digit that ratios are published with.
RATIO_ROUNDING = 0.05


def with_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add the columns of a published table where it knows the application."""
    import pandas as pd

    from toruscast import datasets

    published = pd.read_csv(datasets.table_path(name), comment="#")
    if "upgrade" in table:
        keys = ["application", "requirement"]
        published = published.melt(keys, var_name="upgrade", value_name="published")
        keys.append("upgrade")
    else:
        keys = ["application", "system"]
        published = published.rename(
            columns={c: f"published_{c}" for c in published.columns if c not in keys}
        )
    joined = table.merge(published, how="left", on=keys)
    return joined[[c for c in joined.columns if c != "reason"] + ["reason"]]


def print_upgrades(console: Console, table: pd.DataFrame) -> None:
    """Print a row a requirement, and for each upgrade the ratio, its growth, the published one."""
    upgrades = list(dict.fromkeys(table["upgrade"]))
    known = "published" in table and table["published"].notna().any()
    headings = ["application", "requirement"]
    for name in upgrades:
        headings += [name, "growth", *(["published"] if known else [])]
    rows = []
    for keys, part in table.groupby(["application", "requirement"], sort=False):
        cells = [str(key).replace("_", " ") for key in keys]
        by_upgrade = part.set_index("upgrade")
        for name in upgrades:
            row = by_upgrade.loc[name]
            cells += [_ratio(row["ratio"]), _ratio(row["growth_ratio"])]
            if known:
                far = abs(row["growth_ratio"] - row["published"]) > RATIO_ROUNDING
                cells.append(_number(row["published"]) + ("*" if far else " "))
        rows.append(cells)
    _print(console, headings, rows, left=2)
    console.print("growth: the ratio with logarithms held at their value before the upgrade")
    if known:
        console.print(
            "* farther from the growth than its rounding; docs/scaling/codesign.md tells why"
        )


def print_systems(console: Console, table: pd.DataFrame) -> None:
    """Print a row an application and system."""
    known = "published_wall_time" in table and (
        table[["published_largest_problem", "published_wall_time"]].notna().any().any()
    )
    names = ["n", "largest_problem", "wall_time"]
    headings = ["application", "system", "n a\nprocess", "largest\nproblem", "wall\ntime (s)"]
    if known:
        names.insert(2, "published_largest_problem")
        names.append("published_wall_time")
        headings[4:] = ["published", "wall\ntime (s)", "published"]
    rows = []
    for row in table.to_dict("records"):
        cells = [str(row["application"]), str(row["system"])]
        for name in names:
            value = float(row[name])
            mark = ""
            if name.startswith("published"):
                computed = float(row[name.removeprefix("published_")])
                mark = " " if agrees(computed, value) else "*"
            cells.append(_number(value) + mark)
        rows.append(cells)
    _print(console, headings, rows, left=2)
    if known:
        console.print("* farther away than its rounding; docs/scaling/codesign.md tells why")


def print_models(console: Console, applications: Iterable[Application]) -> None:
    """Print a row a model, and the notes below."""
    chosen = list(applications)
    rows = [
        [app.name, name.replace("_", " "), model.text]
        for app in chosen
        for name, model in app.requirements.items()
    ]
    _print(console, ["application", "requirement of a process", "model"], rows, left=3)
    for app in chosen:
        for note in app.notes:
            console.print(f"{app.name}: {note}", soft_wrap=True)


def agrees(value: float, published: float) -> bool:
    """Whether a value rounds to a published one, given with as many digits as it needs.

    Examples
    --------
    >>> agrees(1.71e10, 1.7e10), agrees(103.0, 100.0), agrees(24.0, 40.0)
    (True, True, False)
    """
    if math.isnan(value) or math.isnan(published):
        return math.isnan(value) and math.isnan(published)
    digits = len(f"{published:.12e}".split("e")[0].rstrip("0").replace(".", "").lstrip("-"))
    return float(f"{value:.{max(digits, 1) - 1}e}") == published


def _print(console: Console, headings: list[str], rows: list[list[str]], left: int) -> None:
    view = new_table(*headings, left=tuple(headings[:left]))
    for row in rows:
        view.add_row(*row)
    print_table(view, console, keep=left + 1)


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}" if value < 1000 else f"{value:.3g}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
