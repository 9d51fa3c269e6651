"""Which mapping is fastest and which to run next: posteriors, simulations, measured runs.

Open `ranking.py` first. `posterior.py` models the candidates' times, `loop.py` selects the next
simulation, `planning.py` the next run. `calibration.py` estimates the torus that a forecast uses.
Every public name is listed in ``__init__.pyi`` and imported when first used.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
