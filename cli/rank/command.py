"""``toruscast rank``: which candidate mapping is fastest, how sure that is, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toruscast import __version__
from toruscast.wording import counted, printable

from .. import options
from ..inputs import LoadedTraffic, load_application, load_mappings, load_torus
from ..learning import COVERAGE, load_plugin
from ..mapping_files import MappingFile, is_folder, write_to_folder
from ..output import Output
from ..phrases import application_line, check_page, occupancy, report_option
from ..placing_options import best_option
from ..records import Basis, Candidates, Limits, Traffic, Work
from ..workers import Compiling

if TYPE_CHECKING:
    from toruscast.training import Forecast

_STAGES = {"features": "Routing", "simulations": "Simulating"}
# Minutes of simulation from which on they are told beforehand.
_LONG = 2.0


@click.command("rank")
@options.traffic_options
@options.candidates_options
@options.basis_options
@options.limit_options
@click.option(
    "--check", is_flag=True, help="Simulate all candidates afterwards and score the answer."
)
@options.top_option(10)
@options.routed_work_options
@best_option("Write the fastest mapping; or all candidates, to a FOLDER/.")
@report_option
@options.output_record
def command(
    traffic: Traffic,
    candidates: Candidates,
    basis: Basis,
    limits: Limits,
    check: bool,
    top: int,
    work: Work,
    best: MappingFile,
    report: str | None,
    output: Output,
) -> None:
    """Find the fastest of several mappings of an application on a torus.

    A model forecasts the time of every candidate from its routes. Simulations go to the candidates
    that may be the fastest, until the answer is proved or sure, or the budget is spent.

    \b
    toruscast rank --comm lammps-lj-512 --torus 8x8x8 --check
    toruscast rank --comm app.prof --torus bluegene_q:1024 --mappings maps/ --out best.map
    toruscast rank --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv
    """  # noqa: D301
    if basis.plugin is not None and basis.model == "default":
        raise click.UsageError("--plugin needs --model, which reads its features")
    if basis.times is not None:
        _check_times(basis, candidates, check)
    output.check({"--report": report}, also={"--out": best.out})
    check_page(report)
    best.check(candidates.hosts, folder=True)
    load_plugin(basis.plugin)
    application = load_application(traffic)
    torus = load_torus(traffic)
    compiling = Compiling(torus, work.routing, output)
    mappings = load_mappings(application.workload, torus, candidates, work.seed)
    from toruscast.training import forecast, simulation_minutes

    most = len(mappings) if check else min(limits.budget.simulations, len(mappings))
    if basis.times is not None and most:
        # Measured times are explained by simulated ones, of every candidate.
        most = len(mappings)
    minutes = simulation_minutes(application.workload, torus, mappings, most) / work.jobs
    if minutes > _LONG:
        less = "without --check fewer" if check else "a smaller --simulations takes less"
        output.message(
            f"at most {minutes:,.0f} minutes of simulation ahead, for {most} mappings; {less}"
        )
    with output.progress("Routing") as show:

        def tell(stage: str, done: int, total: int) -> None:
            show(done, total, _STAGES[stage])
            if done == total:
                compiling.wait()

        found = forecast(
            application.workload,
            torus,
            mappings,
            model=basis.model,
            times=basis.times,
            budget=limits.budget,
            routing=work.routing,
            check=check,
            coverage=COVERAGE,
            n_jobs=work.jobs,
            progress=tell,
        )
    from toruscast.answers.rank import answer

    output.deliver(
        answer(found, setting=_setting(application, found, basis), top=top),
        report,
        {
            "toruscast": __version__,
            "application": application.describe(),
            "model": {
                "source": basis.times or basis.model,
                "n_samples": found.fitted.n_samples_,
                "features": list(found.fitted.required_columns),
                "target": found.fitted.target,
            },
        },
    )
    if best.out is not None and is_folder(best.out):
        write_to_folder(mappings, torus, best.out, output)
    elif best.out is not None:
        output.say(best.write(found.best, torus, candidates.hosts))


def _check_times(basis: Basis, candidates: Candidates, check: bool) -> None:
    """Raise where an option does not go with measured times."""
    if candidates.mappings is None:
        raise click.UsageError("--times needs --mappings, whose times they are")
    if basis.model != "default":
        raise click.UsageError("--times and --model exclude each other: times make their own model")
    if check:
        raise click.UsageError("--check simulates: it cannot check the times of a machine")


def _setting(application: LoadedTraffic, found: Forecast, basis: Basis) -> str:
    """Return what is ranked and by what, in a line."""
    routing = {
        "adaptive": " with adaptive routing",
        "by_size": " with routing by message size",
    }.get(found.routing, "")
    model = basis.model
    origin = "the default model" if model == "default" else f"the model {printable(model)}"
    origin += f" ({found.fitted.n_samples_} samples)"
    decided = " and simulated where it decides"
    if basis.times is not None:
        origin, decided = f"measured times of {found.cost.measured} of them", ""
    elif found.fitted.target == "measured":
        decided = ", which learned from times of a machine"
    if found.networks is not None:
        several = f"simulated on {found.cost.networks} networks that the machine may have"
        weighed = f", weighed by measured times of {found.cost.measured} of them"
        origin, decided = several, weighed if found.cost.measured else ""
    else:
        origin = f"forecast by {origin}"
    return (
        f"{application_line(application)}; on torus {found.torus}{routing}; "
        f"{counted(len(found.mappings), 'candidate mapping')}, {occupancy(found.mappings)}; "
        f"{origin}{decided}."
    )
