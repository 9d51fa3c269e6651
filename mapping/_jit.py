"""Every numba option of the project, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

# Its type hints know neither the decorated type nor every option.
_njit: Any = numba.njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function`` to machine code without the interpreter lock, kept between runs.

    Divisions by zero follow C, which saves a branch in each; kernels never divide by data.
    """
    compiled: F = _njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def bare_kernel(function: F) -> F:
    """Compile a kernel that allocates nothing, without counting references to its arrays.

    Passing a tuple of arrays between functions otherwise costs more than the work inside them.
    """
    compiled: F = _njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)(
        function
    )
    return compiled
