"""Layouts of sharded models on a torus: ranked, explained, and handed to JAX or PyTorch/XLA.

Open `ranking.py` first; `step_times.py` holds the times of collectives, `hlo.py` reads what a
compiled program sends. Public names are listed in ``__init__.pyi`` and imported when first used.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
