"""Learning from samples which mapping is fast: predictors, their quality, rankings.

Every public name stands in ``__init__.pyi`` and is imported when first used: scikit-learn, which
learning needs and a forecast does not, takes a second to start.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
