"""Scaling models of applications: measured values, composition, interconnects, requirements.

`PMNFRegressor` is a scikit-learn estimator of one model in performance model normal form, a sum of
products of x^i log2(x)^j [Calotoiu13], [Calotoiu16]. `fit_many` fits thousands of call paths at
once, and `read_measurements` reads Extra-P's files. `sequential`, `tpool` and `pipe` compose models
of parallel programs from models of their sequential tasks [Calotoiu19]. `fit_interconnect` and
`what_if` estimate the cost of latency and bandwidth [LSDYNA03]. `upgrade_ratios` and
`compare_systems` estimate the benefit of a machine for an application [Calotoiu18].

All public names are listed in ``__init__.pyi`` and imported on first use.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
