"""``toruscast rank``: which candidate mapping is fastest, how sure that is, and why."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toruscast.typing import Routing

from .. import options
from ..cost import tell_cost
from ..inputs import (
    Application,
    check_sends,
    load_application,
    load_mappings,
    load_torus,
)
from ..mapping_files import check_target, is_folder, write_to_folder
from ..output import Output, records
from ..quality import COVERAGE
from ..records import Candidates, Traffic, Work
from ..selection import load_plugin

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from toruscast.features.reasons import Reasons
    from toruscast.mapping import CommGraph, TaskMapping, Torus
    from toruscast.training import TimePredictor, Training


@dataclass(frozen=True, eq=False)
class Ranking:
    """All that the command found out."""

    application: Application
    torus: Torus
    mappings: list[TaskMapping]
    model: TimePredictor
    source: str
    """Where the model is from; "simulation" if nothing needed to be forecast (`is_exact`)."""
    is_exact: bool
    training: Training | None
    table: pd.DataFrame
    reasons: dict[str, Reasons]
    routing: Routing
    checked: dict[str, float] | None
    """Scores on the candidates where they were simulated."""


@click.command("rank")
@options.traffic_options
@options.candidates_options
@click.option(
    "--train",
    type=click.IntRange(min=6),
    metavar="N",
    help="Train on N other simulated mappings of the same application.  "
    f"[default: {options.TRAINING}]",
)
@click.option(
    "--model",
    metavar="FILE|default",
    help="Instead: a model made by 'toruscast train', or the one that comes with toruscast.",
)
@options.plugin_option(" that the model of --model reads")
@click.option("--check", is_flag=True, help="Simulate the candidates too and score the forecast.")
@options.top_option(10)
@options.routed_work_options
@click.option(
    "--out",
    metavar="FILE|FOLDER/",
    help="Write the mapping predicted fastest (.map, .txt, .csv), or all candidates to a folder.",
)
@options.output_record
def command(
    traffic: Traffic,
    candidates: Candidates,
    train: int | None,
    model: str | None,
    plugin: str | None,
    check: bool,
    top: int,
    work: Work,
    out: str | None,
    output: Output,
) -> None:
    """Rank candidate mappings of an application on a torus by predicted time.

    The forecast is learned from simulated times of other mappings of the same application, never
    of the candidates; --check simulates those as well and scores it. Where no edge has more than
    one packet the candidates are simulated at once, which takes no longer, and nothing is learned.

    \b
    toruscast rank --comm lammps-lj-512 --torus 8x8x8 --check
    toruscast rank --comm app.prof --torus bluegene_q:1024 --mappings maps/ --out best.map
    """  # noqa: D301
    if train is not None and model is not None:
        raise click.UsageError("--train and --model exclude each other")
    if plugin is not None and model is None:
        raise click.UsageError("--plugin needs --model, which reads its features")
    output.check(also={"--out": out})
    if out is not None:
        check_target(out)
    load_plugin(plugin)
    application = load_application(traffic)
    check_sends(application.comm, traffic.comms[0])
    host = load_torus(traffic)
    chosen = load_mappings(application.comm, host, candidates, work.seed)
    found = _forecast(
        application,
        host,
        chosen,
        train,
        model,
        work.routing,
        check,
        work.seed,
        work.jobs,
        output,
    )
    if out is not None:
        _write_mappings(found, out, output)
    output.write(_content(found), found.table)
    if output.for_people:
        from .report import print_ranking

        print_ranking(found, top, output.console())


def _forecast(
    application: Application,
    torus: Torus,
    mappings: list[TaskMapping],
    train: int | None,
    model_path: str | None,
    routing: Routing,
    check: bool,
    seed: int,
    jobs: int,
    output: Output,
) -> Ranking:
    """Train or load the model, forecast, and simulate the candidates if wanted.

    No model is trained where the candidates' sketches are simulations.
    """
    from toruscast.features.reasons import explain
    from toruscast.mapping.strategies.sampling import most_mappings
    from toruscast.training import load_predictor, rank
    from toruscast.training.forecast import sketch_is_exact

    comm = application.comm
    training = None
    n_train = options.TRAINING if train is None else train
    is_single = sketch_is_exact(comm, torus, mappings[0])
    if train is None and model_path is None and not is_single:
        capacity = max(mapping.tasks_per_node for mapping in mappings)
        n_left = most_mappings(comm, torus, capacity, n_train, mappings)
        if n_left < n_train:
            model_path = "default"
            output.message(
                f"of so few tasks there are {n_left} other mappings, too few to learn from: the "
                "default model forecasts ('toruscast simulate' shows the times themselves)"
            )
    given = None if model_path is None else load_predictor(model_path)
    n_checked = len(mappings) if check else 0
    is_exact = is_single and (given is None or given.target == "correction")
    if is_exact:
        n_simulated, less = len(mappings) + n_checked, "fewer candidates take less"
        source = "simulation"
    elif given is not None:
        n_simulated, less = n_checked, "without --check none"
        source = str(model_path)
    else:
        n_simulated = n_train + n_checked
        less = "a smaller --train takes less, --model default none"
        source = "trained"
    tell_cost(comm, torus, mappings, n_simulated, less, jobs, output)
    if given is None and not is_exact:
        training = _trained(comm, torus, mappings, n_train, routing, seed, jobs, output)
        model = training.model
    else:
        # Where nothing is forecast any model that corrects sketches will do.
        model = load_predictor("default") if given is None else given
    observed = None
    if check:
        observed = _simulated(comm, torus, mappings, routing, jobs, output)
    table = rank(
        comm,
        torus,
        mappings,
        model,
        routing=routing,
        coverage=COVERAGE,
        observed=observed,
        n_jobs=jobs,
    )
    by_name = {mapping.name or str(i): mapping for i, mapping in enumerate(mappings)}
    names = table["mapping"].iloc[[0, -1]]
    reasons = {name: explain(comm, torus, by_name[name], routing=routing) for name in names}
    return Ranking(
        application,
        torus,
        mappings,
        model,
        source,
        is_exact,
        training,
        table,
        reasons,
        routing,
        _scores(table) if check else None,
    )


def _trained(
    comm: CommGraph,
    torus: Torus,
    mappings: list[TaskMapping],
    n_train: int,
    routing: Routing,
    seed: int,
    jobs: int,
    output: Output,
) -> Training:
    """Train on mappings that are no candidates."""
    from toruscast.errors import TooFewMappingsError
    from toruscast.training import train_for

    what = f"Simulating {n_train} mappings to learn from"
    try:
        with output.progress(what, then="Training and testing") as progress:
            # Another seed: other random mappings than those of the candidates.
            return train_for(
                comm,
                torus,
                n_train,
                seed=seed + 1,
                exclude=mappings,
                routing=routing,
                n_jobs=jobs,
                progress=progress,
            )
    except TooFewMappingsError as error:
        raise error.replace(
            "not enough different mappings to train on",
            expected=f"{error.expected}; a smaller --train, or --model",
        ) from None


def _simulated(
    comm: CommGraph,
    torus: Torus,
    mappings: list[TaskMapping],
    routing: Routing,
    jobs: int,
    output: Output,
) -> NDArray[np.float64]:
    """Return the simulated time of each mapping."""
    from toruscast.training import build_samples

    with (
        tempfile.TemporaryDirectory() as folder,
        output.progress("Simulating the candidates") as progress,
    ):
        samples = build_samples(
            [(comm, torus, mappings)],
            Path(folder) / "candidates.parquet",
            n_jobs=jobs,
            routing=routing,
            progress=progress,
        )
    return samples["time"].to_numpy(dtype="float64")


def _scores(table: pd.DataFrame) -> dict[str, float]:
    """Score the forecast on the candidates."""
    from toruscast.training.evaluate import METRICS

    observed, predicted = table["observed_time"], table["predicted_time"]
    scores = {}
    if len(table) > 1:
        scores = {name: metric(observed, predicted) for name, metric in METRICS.items()}
        from toruscast.training.metrics import rcc_ties_halved

        for name in ("lower_bound", "sketch_time"):
            if name in table.columns:
                scores[f"rcc_of_{name}"] = rcc_ties_halved(observed, table[name])
    within = (table["low"] <= observed) & (observed <= table["high"])
    return {**scores, "within_interval": float(within.mean())}


def _write_mappings(found: Ranking, out: str, output: Output) -> None:
    """Write the best mapping to a file, or all to a folder."""
    from toruscast.mapping.formats import write_mapping

    if is_folder(out):
        write_to_folder(found.mappings, found.torus, out, output)
        return
    best = found.table["mapping"].iloc[0]
    chosen = [m for i, m in enumerate(found.mappings) if (m.name or str(i)) == best]
    write_mapping(chosen[0], found.torus, out)


def _model(found: Ranking) -> dict[str, Any]:
    """Return what made the forecast, for JSON."""
    if found.is_exact:
        return {"source": found.source, "n_samples": 0, "features": [], "target": "time"}
    return {
        "source": found.source,
        "n_samples": found.model.n_samples_,
        "features": list(found.model.required_columns),
        "target": found.model.target,
    }


def _content(found: Ranking) -> dict[str, Any]:
    """Return all of it for JSON."""
    from toruscast import __version__

    quality: dict[str, Any] = {}
    if found.checked is not None:
        quality["candidates"] = {"n_test": len(found.table), **found.checked}
    if found.training is not None:
        quality["repeated_splits"] = records(found.training.quality)
    return {
        "toruscast": __version__,
        "application": found.application.describe(),
        "torus": {"name": str(found.torus), "nodes": found.torus.n_nodes},
        "routing": found.routing,
        "model": _model(found),
        "coverage": COVERAGE,
        "ranking": records(found.table),
        "reasons": {
            name: {
                "bounds": why.bounds,
                "binding": why.binding,
                "hottest_links": records(why.links),
            }
            for name, why in found.reasons.items()
        },
        "quality": quality,
    }
