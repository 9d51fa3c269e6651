"""Forecast which task mapping of a parallel application runs fastest on a torus network.

Every public name stands in ``__init__.pyi``. It is imported when first used, so that
``import toruscast`` and the command's help cost nothing.
"""

from __future__ import annotations

import logging

import lazy_loader

from toruscast._lazy import prefer_names

__version__ = "0.1.0"

__getattr__, _names, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])


prefer_names(__name__, ["search"])

# What the library records goes nowhere unless its user says where to.
logging.getLogger(__name__).addHandler(logging.NullHandler())
