"""Forecast which task mapping of a parallel application runs fastest on a torus network.

The parts are imported when first used, so that ``import toruscast`` and the command's help cost
nothing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toruscast import datasets, features, mapping, routing, simulation, training
    from toruscast.errors import InputError
    from toruscast.features import extract
    from toruscast.mapping import (
        CommGraph,
        Hosts,
        Network,
        TaskMapping,
        Torus,
        Workload,
        from_networkx,
        from_pandas,
        from_scipy,
        machine,
        machines,
        parse_torus,
        patterns,
        strategies,
    )
    from toruscast.mapping.formats import (
        read_comm,
        read_hosts,
        read_mapping,
        read_mappings,
        read_times,
        read_torus,
        read_workload,
        stream_comm,
        write_comm,
        write_mapping,
        write_mappings,
        write_torus,
    )
    from toruscast.mapping.formats.hlo import read_hlo
    from toruscast.report.page.write import write_report
    from toruscast.simulation import simulate, simulate_flows
    from toruscast.training import (
        Budget,
        Forecast,
        Runs,
        TimePredictor,
        forecast,
        learn_runs,
        load_predictor,
        plan,
        save_predictor,
        train_for,
    )
    from toruscast.training.explanation import explain
    from toruscast.training.mesh import MeshForecast, mesh
    from toruscast.training.search import search

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "CommGraph",
    "Forecast",
    "Hosts",
    "InputError",
    "MeshForecast",
    "Network",
    "Runs",
    "TaskMapping",
    "TimePredictor",
    "Torus",
    "Workload",
    "datasets",
    "explain",
    "extract",
    "features",
    "forecast",
    "from_networkx",
    "from_pandas",
    "from_scipy",
    "learn_runs",
    "load_predictor",
    "machine",
    "machines",
    "mapping",
    "mesh",
    "parse_torus",
    "patterns",
    "plan",
    "read_comm",
    "read_hlo",
    "read_hosts",
    "read_mapping",
    "read_mappings",
    "read_times",
    "read_torus",
    "read_workload",
    "routing",
    "save_predictor",
    "search",
    "simulate",
    "simulate_flows",
    "simulation",
    "strategies",
    "stream_comm",
    "train_for",
    "training",
    "write_comm",
    "write_mapping",
    "write_mappings",
    "write_report",
    "write_torus",
]

# Where each public name is defined, by package.
_NAMES = {
    "errors": "InputError",
    "features": "extract",
    "mapping": "CommGraph Hosts Network TaskMapping Torus Workload from_networkx from_pandas "
    "from_scipy machine machines parse_torus patterns strategies",
    "mapping.formats": "read_comm read_hosts read_mapping read_mappings read_times read_torus "
    "read_workload stream_comm write_comm write_mapping write_mappings write_torus",
    "mapping.formats.hlo": "read_hlo",
    "report.page.write": "write_report",
    "simulation": "simulate simulate_flows",
    "training": "Budget Forecast Runs TimePredictor forecast learn_runs load_predictor plan "
    "save_predictor train_for",
    "training.mesh": "MeshForecast mesh",
    "training.explanation": "explain",
    "training.search": "search",
}
_HOME = {name: package for package, names in _NAMES.items() for name in names.split()}
_PACKAGES = {"datasets", "features", "mapping", "routing", "simulation", "training"}


# What the library records goes nowhere unless its user says where to.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        value: Any = import_module(f"toruscast.{name}")
    elif name in _HOME:
        home = import_module(f"toruscast.{_HOME[name]}")
        value = getattr(home, name, None) or import_module(f"{home.__name__}.{name}")
    else:
        raise AttributeError(f"module 'toruscast' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
