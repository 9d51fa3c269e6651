"""Modules that a command needs when it runs, each imported when first used."""

from typing import TYPE_CHECKING

from toruscast._lazy import slow_modules

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from rich import console as rich_console
    from rich import progress as rich_progress

    import toruscast.features.registry as feature_registry
    import toruscast.mapping.formats.mapping as mapping_formats
    import toruscast.mapping.formats.mappings.devices as printed_devices
    import toruscast.mapping.formats.source as sources
    import toruscast.mapping.formats.tables as tables
    import toruscast.mapping.formats.times as formats_of_times
    import toruscast.mapping.mesh as axes_of
    import toruscast.mapping.mesh.devices as mesh_devices
    import toruscast.mapping.strategies.permute as orders_of_ranks
    import toruscast.routing.routing as routes
    import toruscast.scaling.pmnf.notes as model_notes
    import toruscast.simulation.collectives as collective_times
    import toruscast.simulation.run as simulation_run
    import toruscast.simulation.trace as simulation_trace
    import toruscast.training.forecast.answer as forecast_answer
    import toruscast.training.measured.measured as measured_runs
    import toruscast.training.mesh as layouts
    import toruscast.training.plan.script as run_script
    import toruscast.training.samples.application as drawn_samples
    import toruscast.workers as pool
    from toruscast import _jit as jit
    from toruscast import validation as validation
    from toruscast.cli import orders as launcher_orders
    from toruscast.features import reasons as reasons
    from toruscast.mapping import allocation as allocation
    from toruscast.mapping import formats as formats
    from toruscast.mapping.formats import jobs as jobs
    from toruscast.mapping.formats import registry as registry
    from toruscast.mapping.mesh import programs as programs
    from toruscast.mapping.strategies import sampling as sampling
    from toruscast.scaling import formula as formula
    from toruscast.scaling.composition import stage as stage
    from toruscast.scaling.pmnf import intervals as intervals
    from toruscast.simulation import setup as setup
    from toruscast.simulation.kernels import loop as loop
    from toruscast.training.evaluate import hold_out as hold_out
    from toruscast.training.evaluate import metric_evaluation as metric_evaluation
    from toruscast.training.evaluate import metrics as metrics
    from toruscast.training.evaluate import pmnf_baseline as pmnf_baseline
    from toruscast.training.mesh import placements as placements
    from toruscast.training.plan import run_loop as run_loop
    from toruscast.training.samples import stored as stored
else:
    globals().update(slow_modules(__name__))
