"""Predict which task mapping of a parallel application runs fastest on a torus network.

These ten functions cover most uses; ``help(toruscast.rank)`` shows an example.

    torus("bluegene_q:1024")          a torus from a name, sizes or a file
    read_workload("app.mpiP")         the messages of an application
    read_mappings("maps/", torus)     candidate mappings; candidates(comm, torus) makes some
    rank(comm, torus, mappings)       the fastest mapping, its gain, certainty and reasons
    plan(comm, torus, mappings, times="runs.csv")   the mapping to run next on the machine
    search(comm, torus, seconds=30)   a mapping that is faster than the candidates
    explain(comm, torus, mapping)     the causes of a mapping's time
    simulate(comm, torus, mapping)    its time, packet by packet; simulate_flows for gigabytes
    write_mapping(mapping, "MPICH_RANK_ORDER")      the file for a launcher
    write_report(answer, "answer.html")             any of these answers as a page

Every public name is listed in ``__init__.pyi`` and imported when first used, so ``import
toruscast`` and the command's help are fast.
"""

from __future__ import annotations

import logging
from typing import Any

import lazy_loader

__version__ = "0.1.0"

_attribute, _names, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("__"):
        return _attribute(name)
    from toruscast.text import closest

    near = closest(name, __all__, "one of dir(toruscast)")
    raise AttributeError(f"module 'toruscast' has no attribute {name!r}; did you mean {near}?")


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])


# Libraries must not log by default.
logging.getLogger(__name__).addHandler(logging.NullHandler())
