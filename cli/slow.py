"""Modules of other packages, imported at their first use and named by package and module."""

from typing import TYPE_CHECKING

from toruscast._lazy import lazy_modules

if TYPE_CHECKING:
    from toruscast import _mesh as mesh
    from toruscast import workers
    from toruscast._features import reasons
    from toruscast._features import registry as feature_registry
    from toruscast._features import table as feature_table
    from toruscast._mesh import answer as mesh_answer
    from toruscast._mesh import devices as mesh_devices
    from toruscast._mesh import ranking as mesh_ranking
    from toruscast._mesh import traffic as mesh_traffic
    from toruscast._search import candidates as search_candidates
    from toruscast.decision import measured as decision_measured
    from toruscast.decision import results as decision_results
    from toruscast.decision import run_loop
    from toruscast.formats import dialect as format_dialect
    from toruscast.formats import jobs, readers, tables, times, tracer
    from toruscast.formats import registry as format_registry
    from toruscast.formats import source as format_source
    from toruscast.mapping import task_mapping
    from toruscast.mapping.strategies import permute
    from toruscast.mapping.strategies import registry as strategy_registry
    from toruscast.routing import routing
    from toruscast.scaling import fit as scaling_fit
    from toruscast.scaling import formula, stages
    from toruscast.simulation import flows, simulator
    from toruscast.simulation import trace as simulation_trace
    from toruscast.training import application as training_application
    from toruscast.training import evaluation, metrics
    from toruscast.training import samples as training_samples
else:
    globals().update(lazy_modules(__name__))
