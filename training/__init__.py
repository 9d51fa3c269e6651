"""Predictors of mapping times, learned from samples, and their evaluation.

Every public name is listed in ``__init__.pyi`` and imported when first used, because scikit-learn
takes a second to import and a forecast does not need it.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
