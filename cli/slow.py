"""Modules that a command needs when it runs, each imported when first used."""

from typing import TYPE_CHECKING

from toruscast._lazy import slow_modules

if TYPE_CHECKING:
    from toruscast import _mesh as mesh
    from toruscast import workers as pool
    from toruscast._features import reasons as reasons
    from toruscast._features import registry as feature_registry
    from toruscast._features import table as feature_table
    from toruscast._mesh import answer as mesh_answer
    from toruscast._mesh import devices as mesh_devices
    from toruscast._mesh import ranking as placements
    from toruscast._mesh import traffic as mesh_traffic
    from toruscast.decision import measured as measured_runs
    from toruscast.decision import results as forecast_results
    from toruscast.decision import run_loop as run_loop
    from toruscast.formats import dialect as dialects
    from toruscast.formats import jobs as jobs
    from toruscast.formats import readers as readers
    from toruscast.formats import registry as registry
    from toruscast.formats import source as sources
    from toruscast.formats import tables as tables
    from toruscast.formats import times as times
    from toruscast.formats import tracer as tracer
    from toruscast.mapping import task_mapping as allocation
    from toruscast.mapping.strategies import permute as rank_orders
    from toruscast.mapping.strategies import registry as strategy_names
    from toruscast.mapping.strategies import sampling as sampling
    from toruscast.routing import routing as routes
    from toruscast.scaling import fit as scaling_fit
    from toruscast.scaling import formula as formula
    from toruscast.scaling import models as scaling_models
    from toruscast.scaling import stages as stages
    from toruscast.simulation import flows as flows
    from toruscast.simulation import simulator as simulator
    from toruscast.simulation import trace as simulation_trace
    from toruscast.training import application as drawn_samples
    from toruscast.training import evaluation as evaluation
    from toruscast.training import metrics as metrics
    from toruscast.training import samples as stored
else:
    globals().update(slow_modules(__name__))
