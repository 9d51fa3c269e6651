"""Speed-up of an application over its tasks, with the limits of faster interconnects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from ..drawing import figure, save
from .labels import label, ticks_at

if TYPE_CHECKING:
    import pandas as pd


def save_speedup_figure(table: pd.DataFrame, file: str | os.PathLike[str]) -> None:
    """Draw the speed-up of each interconnect, and write it as SVG, PNG or PDF.

    Parameters
    ----------
    table : DataFrame
        From `toruscast.scaling.interconnect.what_if.speedups`.
    file : path-like
        The suffix tells the format.

    Raises
    ------
    InputError
        If the file cannot be written, or matplotlib is missing.

    Examples
    --------
    >>> import tempfile, pathlib, pandas as pd
    >>> table = pd.DataFrame({
    ...     "interconnect": "fast", "tasks": [1, 4], "base": 1, "speed_up": [1.0, 3.0],
    ...     "zero_latency": [1.0, 3.5], "infinite_speed": [1.0, 3.7]})
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "speedup.svg"
    >>> save_speedup_figure(table, file)
    >>> "without latency" in file.read_text()
    True
    """
    bases = list(dict.fromkeys(table["base"]))
    with figure(3.2 * len(bases) + 2.4, 3.8) as drawn:
        for axes, base in zip(drawn.subplots(1, len(bases), squeeze=False)[0], bases, strict=True):
            part = table[table["base"] == base]
            sizes = np.unique(part["tasks"])
            axes.plot(sizes, sizes / base, ":", color="0.6", lw=1, label="ideal")
            for k, (net, own) in enumerate(part.groupby("interconnect", sort=False)):
                own = own.sort_values("tasks")
                name = label(str(net), 20)
                axes.plot(own["tasks"], own["speed_up"], "o-", color=f"C{k}", ms=3.5, label=name)
                for column, style, what in (
                    ("zero_latency", "--", "without latency"),
                    ("infinite_speed", "-.", "of infinite speed"),
                ):
                    shown = {"color": f"C{k}", "lw": 1, "label": f"{name} {what}"}
                    axes.plot(own["tasks"], own[column], style, **shown)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            ticks_at(axes.xaxis, sizes.tolist())
            ticks_at(axes.yaxis, (sizes / base).tolist())
            axes.set_xlabel("tasks")
            axes.set_ylabel(f"speed-up over {base} task{'s' * (base > 1)}")
            axes.legend(fontsize=7)
        save(drawn, file)
