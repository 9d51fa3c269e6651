"""Forecast which task mapping of a parallel application runs fastest on a torus network.

Every public name stands in ``__init__.pyi``. It is imported when first used, so that
``import toruscast`` and the command's help cost nothing.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType

import lazy_loader

__version__ = "0.1.0"

__getattr__, _names, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])


class _Package(ModuleType):
    """`toruscast.search` stays the function when the room of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "search" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

# What the library records goes nowhere unless its user says where to.
logging.getLogger(__name__).addHandler(logging.NullHandler())
