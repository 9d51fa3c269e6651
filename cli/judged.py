"""What a metric of the user's own adds to those that are there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .inputs import load_application, load_torus
from .learning import obtain_samples
from .output import Output
from .records import SampleSource, Traffic, Work, is_default, refuse

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.mapping import Workload

# Of each workload and torus so many messages are routed at most, so that tables of millions of
# messages a mapping take a minute.
MOST = 2**23
SPLITS = 10


def judge_metrics(
    traffic: Traffic,
    source: SampleSource,
    mine: tuple[str, ...],
    level: int | None,
    splits: int,
    work: Work,
    output: Output,
    report: str | None,
) -> None:
    """Say whether metrics add to the set ``prior`` and to the best set.

    Raises
    ------
    InputError
        If there are no samples, or their traffic cannot be routed again.
    """
    from toruscast.answers.evaluation import of_metrics
    from toruscast.training import needed_level
    from toruscast.training.evaluate.metric_evaluation import judge

    if source.samples is not None and os.path.exists(source.samples):  # noqa: PTH110
        table = _from_table(traffic, source, mine, work, output)
    else:
        needed = needed_level(mine, None)
        table = obtain_samples(traffic, source, max(level or 1, needed), work, output)
    n_splits = SPLITS if is_default("splits") else splits
    with output.progress("Judging the metric") as progress:
        found = judge(
            table, mine, n_splits=n_splits, seed=work.seed, n_jobs=work.jobs, progress=progress
        )
    output.deliver(of_metrics(found, mine, n_splits), report)


def _from_table(
    traffic: Traffic, source: SampleSource, mine: tuple[str, ...], work: Work, output: Output
) -> pd.DataFrame:
    """Return the samples of a file with the metrics of their traffic, routed again."""
    from toruscast.errors import InputError
    from toruscast.training import read_samples
    from toruscast.training.samples.stored import add_metrics

    others = ("number", "tasks_per_node", "hosts", "mapping_form", "fixed", "mappings")
    refuse("with new samples; those of --samples are there already", *others, "routing", "level")
    table = read_samples(source.samples or "")
    torus = None if traffic.torus is None else load_torus(traffic)
    known = _workloads(traffic, table)
    if traffic.is_given:
        table = _only(table, set(known))
    try:
        with output.progress("Routing the samples") as progress:
            return add_metrics(
                table,
                mine,
                workloads=known,
                torus=torus,
                most=MOST,
                n_jobs=work.jobs,
                progress=progress,
            )
    except InputError as error:
        raise error if error.file else error.replace(file=source.samples) from None


def _workloads(traffic: Traffic, table: pd.DataFrame) -> dict[str, Workload]:
    """Return the workloads that the table does not tell: that of --comm, and shipped datasets."""
    from toruscast import datasets

    names = list(dict.fromkeys(table["workload"]))
    if traffic.is_given:
        workload = load_application(traffic, simulated=False).workload
        # A graph whose file was renamed is still that of the only workload.
        return {names[0] if len(names) == 1 else workload.name: workload}
    told = table.attrs["provenance"].get("workloads")
    known = told if isinstance(told, dict) else {}
    shipped = [name for name in names if name not in known and name in datasets.names()]
    return {
        name: load_application(Traffic(comms=(name,)), simulated=False).workload for name in shipped
    }


def _only(table: pd.DataFrame, names: set[str]) -> pd.DataFrame:
    """Return the samples of these workloads."""
    from toruscast.errors import InputError

    own = table[table["workload"].isin(names)].reset_index(drop=True)
    if own.empty:
        found = ", ".join(sorted(set(table["workload"]))[:3])
        raise InputError("no samples of this graph", found=found, expected=" or ".join(names))
    own.attrs = dict(table.attrs)
    return own
