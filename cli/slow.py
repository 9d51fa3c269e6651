"""Modules that a command needs when it runs, each imported when first used."""

from typing import TYPE_CHECKING

from toruscast._lazy import Slow

__all__ = (
    "axes_of",
    "collective_times",
    "drawn_samples",
    "feature_registry",
    "forecast_answer",
    "formats_of_times",
    "layouts",
    "mapping_formats",
    "measured_runs",
    "mesh_devices",
    "model_notes",
    "np",
    "orders_of_ranks",
    "pd",
    "pool",
    "printed_devices",
    "routes",
    "run_script",
    "simulation_run",
    "simulation_trace",
    "sources",
    "splits_of",
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    import toruscast.features.registry as feature_registry
    import toruscast.mapping.formats.mapping as mapping_formats
    import toruscast.mapping.formats.mappings.devices as printed_devices
    import toruscast.mapping.formats.source as sources
    import toruscast.mapping.formats.times as formats_of_times
    import toruscast.mapping.mesh as axes_of
    import toruscast.mapping.mesh.devices as mesh_devices
    import toruscast.mapping.strategies.permute as orders_of_ranks
    import toruscast.routing.routing as routes
    import toruscast.scaling.pmnf.notes as model_notes
    import toruscast.simulation.collectives as collective_times
    import toruscast.simulation.run as simulation_run
    import toruscast.simulation.trace as simulation_trace
    import toruscast.training.evaluate.evaluate as splits_of
    import toruscast.training.forecast.answer as forecast_answer
    import toruscast.training.measured.measured as measured_runs
    import toruscast.training.mesh as layouts
    import toruscast.training.plan.script as run_script
    import toruscast.training.samples.application as drawn_samples
    import toruscast.workers as pool
    from toruscast import validation as validation
    from toruscast.features import reasons as reasons
    from toruscast.mapping import allocation as allocation
    from toruscast.mapping import formats as formats
    from toruscast.mapping.formats import registry as registry
    from toruscast.mapping.formats.graphs import build as build
    from toruscast.mapping.formats.graphs import parquet as parquet
    from toruscast.mapping.mesh import programs as programs
    from toruscast.mapping.strategies import sampling as sampling
    from toruscast.scaling import formula as formula
    from toruscast.scaling.composition import stage as stage
    from toruscast.scaling.pmnf import intervals as intervals
    from toruscast.simulation import message_life as message_life
    from toruscast.training.evaluate import hold_out as hold_out
    from toruscast.training.evaluate import metric_evaluation as metric_evaluation
    from toruscast.training.evaluate import metrics as metrics
    from toruscast.training.evaluate import pmnf_baseline as pmnf_baseline
    from toruscast.training.mesh import placements as placements
    from toruscast.training.plan import run_loop as run_loop
    from toruscast.training.samples import stored as stored
else:
    np = Slow("numpy")
    pd = Slow("pandas")
    run_script = Slow("toruscast.training.plan.script")
    formats_of_times = Slow("toruscast.mapping.formats.times")
    forecast_answer = Slow("toruscast.training.forecast.answer")
    reasons = Slow("toruscast.features.reasons")
    feature_registry = Slow("toruscast.features.registry")
    allocation = Slow("toruscast.mapping.allocation")
    formats = Slow("toruscast.mapping.formats")
    build = Slow("toruscast.mapping.formats.graphs.build")
    parquet = Slow("toruscast.mapping.formats.graphs.parquet")
    mapping_formats = Slow("toruscast.mapping.formats.mapping")
    printed_devices = Slow("toruscast.mapping.formats.mappings.devices")
    registry = Slow("toruscast.mapping.formats.registry")
    sources = Slow("toruscast.mapping.formats.source")
    axes_of = Slow("toruscast.mapping.mesh")
    mesh_devices = Slow("toruscast.mapping.mesh.devices")
    programs = Slow("toruscast.mapping.mesh.programs")
    orders_of_ranks = Slow("toruscast.mapping.strategies.permute")
    sampling = Slow("toruscast.mapping.strategies.sampling")
    routes = Slow("toruscast.routing.routing")
    stage = Slow("toruscast.scaling.composition.stage")
    formula = Slow("toruscast.scaling.formula")
    intervals = Slow("toruscast.scaling.pmnf.intervals")
    model_notes = Slow("toruscast.scaling.pmnf.notes")
    collective_times = Slow("toruscast.simulation.collectives")
    message_life = Slow("toruscast.simulation.message_life")
    simulation_run = Slow("toruscast.simulation.run")
    simulation_trace = Slow("toruscast.simulation.trace")
    splits_of = Slow("toruscast.training.evaluate.evaluate")
    hold_out = Slow("toruscast.training.evaluate.hold_out")
    metric_evaluation = Slow("toruscast.training.evaluate.metric_evaluation")
    metrics = Slow("toruscast.training.evaluate.metrics")
    pmnf_baseline = Slow("toruscast.training.evaluate.pmnf_baseline")
    measured_runs = Slow("toruscast.training.measured.measured")
    layouts = Slow("toruscast.training.mesh")
    placements = Slow("toruscast.training.mesh.placements")
    run_loop = Slow("toruscast.training.plan.run_loop")
    drawn_samples = Slow("toruscast.training.samples.application")
    stored = Slow("toruscast.training.samples.stored")
    validation = Slow("toruscast.validation")
    pool = Slow("toruscast.workers")
