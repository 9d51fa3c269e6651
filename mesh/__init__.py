"""Layouts of sharded models on a torus: ranked, explained, and handed to JAX or PyTorch/XLA.

Open `ranking.py` first; `step_times.py` computes the times of collectives, and `hlo.py` reads
compiled programs. Public names are listed in ``__init__.pyi`` and imported when first used.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
