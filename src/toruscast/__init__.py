"""Forecast which task mapping of a parallel application runs fastest on a torus network.

The parts are imported when first used, so that ``import toruscast`` and the command's help cost
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toruscast import datasets, features, mapping, training
    from toruscast.features import extract, simulate, simulate_flows
    from toruscast.mapping import (
        CommGraph,
        InputError,
        Network,
        TaskMapping,
        Torus,
        Workload,
        from_networkx,
        from_pandas,
        from_scipy,
        machines,
        parse_torus,
        patterns,
        strategies,
    )
    from toruscast.mapping.formats import (
        read_comm,
        read_mapping,
        read_mappings,
        write_comm,
        write_mapping,
        write_mappings,
    )
    from toruscast.training import (
        TimePredictor,
        load_predictor,
        rank,
        save_predictor,
        train_for,
    )

__version__ = "0.1.0"

__all__ = [
    "CommGraph",
    "InputError",
    "Network",
    "TaskMapping",
    "TimePredictor",
    "Torus",
    "Workload",
    "datasets",
    "extract",
    "features",
    "from_networkx",
    "from_pandas",
    "from_scipy",
    "load_predictor",
    "machines",
    "mapping",
    "parse_torus",
    "patterns",
    "rank",
    "read_comm",
    "read_mapping",
    "read_mappings",
    "read_times",
    "save_predictor",
    "simulate",
    "simulate_flows",
    "strategies",
    "train_for",
    "training",
    "write_comm",
    "write_mapping",
    "write_mappings",
]

_HOME = {
    **dict.fromkeys(("extract", "simulate", "simulate_flows"), "features"),
    **dict.fromkeys(
        (
            "CommGraph", "InputError", "Network", "TaskMapping", "Torus", "Workload",
            "from_networkx", "from_pandas", "from_scipy", "parse_torus",
        ),
        "mapping",
    ),
    **dict.fromkeys(
        (
            "read_comm", "read_mapping", "read_mappings", "read_times",
            "write_comm", "write_mapping", "write_mappings",
        ),
        "mapping.formats",
    ),
    **dict.fromkeys(
        ("TimePredictor", "load_predictor", "rank", "save_predictor", "train_for"), "training"
    ),
}  # fmt: skip
_PACKAGES = {
    "datasets": "datasets",
    "features": "features",
    "machines": "mapping.machines",
    "mapping": "mapping",
    "patterns": "mapping.patterns",
    "strategies": "mapping.strategies",
    "training": "training",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        value: Any = import_module(f"toruscast.{_PACKAGES[name]}")
    elif name in _HOME:
        value = getattr(import_module(f"toruscast.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'toruscast' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
