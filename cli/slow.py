"""Modules that a command needs when it runs, each imported when first used."""

from typing import TYPE_CHECKING

from toruscast._lazy import slow_modules

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from rich import console as rich_console
    from rich import progress as rich_progress

    import toruscast.decision.measured as measured_runs
    import toruscast.decision.results as forecast_answer
    import toruscast.decision.run_loop as run_script
    import toruscast.features.registry as feature_registry
    import toruscast.formats.readers as mapping_formats
    import toruscast.formats.source as sources
    import toruscast.formats.tables as tables
    import toruscast.formats.times as formats_of_times
    import toruscast.mapping.strategies.permute as orders_of_ranks
    import toruscast.mesh as layouts
    import toruscast.mesh.answer as mesh_answer
    import toruscast.mesh.device_lists as printed_devices
    import toruscast.mesh.devices as mesh_devices
    import toruscast.mesh.traffic as axes_of
    import toruscast.routing.routing as routes
    import toruscast.scaling.models as model_notes
    import toruscast.simulation.flows as collective_times
    import toruscast.simulation.run as simulation_run
    import toruscast.simulation.trace as simulation_trace
    import toruscast.training.application as drawn_samples
    import toruscast.workers as pool
    from toruscast import _jit as jit
    from toruscast import formats as formats
    from toruscast import validation as validation
    from toruscast.cli import orders as launcher_orders
    from toruscast.decision import run_loop as run_loop
    from toruscast.features import reasons as reasons
    from toruscast.formats import jobs as jobs
    from toruscast.formats import registry as registry
    from toruscast.mapping import task_mapping as allocation
    from toruscast.mapping.strategies import sampling as sampling
    from toruscast.mesh import layouts as programs
    from toruscast.mesh import ranking as placements
    from toruscast.scaling import formula as formula
    from toruscast.scaling import intervals as intervals
    from toruscast.scaling import stages as stage
    from toruscast.simulation import loop_kernels as loop
    from toruscast.simulation import setup as setup
    from toruscast.training import evaluation as hold_out
    from toruscast.training import evaluation as pmnf_baseline
    from toruscast.training import metric_evaluation as metric_evaluation
    from toruscast.training import metrics as metrics
    from toruscast.training import stored as stored
else:
    globals().update(slow_modules(__name__))
