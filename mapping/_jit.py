"""Every numba option of the project, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function`` to machine code without the interpreter lock, kept between runs.

    Divisions by zero follow C, which saves a branch in each; kernels never divide by data.
    """
    compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled
