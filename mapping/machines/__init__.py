"""Machines with a torus network: a TOML file each, with the source of every number.

`get` and `named` find them by name. A machine is called with sizes:
``machines.tpu_v4((4, 4, 8))``.
"""

from .machine import Citation, Machine, Shapes, get, named, names, torus_from_text

__all__ = ["Citation", "Machine", "Shapes", "get", "named", "names", "torus_from_text"]


def __getattr__(name: str) -> Machine:
    if name not in names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *names()])
