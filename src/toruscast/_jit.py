"""Every numba option of the project, in one place."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event
from numba.extending import register_jitable
from numpy.typing import DTypeLike, NDArray

# Its type hints know neither the decorated type nor every option.
_njit: Any = numba.njit
_part: Any = register_jitable
_register: Any = event.register

F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger(__name__)


class _Compilations(event.Listener):
    """Records the kernels that are compiled, not those that are kept from earlier."""

    def __init__(self) -> None:
        # One inside of the other; the compiler has one lock.
        self.began: list[float] = []

    def on_start(self, event: Any) -> None:
        self.began.append(time.perf_counter())

    def on_end(self, event: Any) -> None:
        seconds, function = time.perf_counter() - self.began.pop(), event.data["dispatcher"].py_func
        if not self.began:
            name = f"{function.__module__}.{function.__name__}"
            compiled = {"event": "compiled", "kernel": name, "seconds": seconds}
            logger.info("compiled %s, in %.3g s", name, seconds, extra=compiled)


_register("numba:compile", _Compilations())


def kernel(function: F) -> F:
    """Compile ``function`` to machine code without the interpreter lock, kept between runs.

    Divisions by zero follow C, which saves a branch in each; kernels never divide by data.
    """
    return _compiled(function)


def entry_kernel(function: F) -> F:
    """Compile a kernel made of bare ones, without counting references to its arrays.

    Passing a tuple of arrays between functions otherwise costs more than the work inside them.
    """
    return _compiled(function, _nrt=False)


def is_compiled(function: Any) -> bool:
    """Whether a kernel need not be compiled: it has been called, or an earlier run has kept it."""
    stats = getattr(function, "stats", None)
    if stats is None or getattr(function, "signatures", None):
        return True
    if stats.cache_path is None:
        return False
    source = Path(function.__code__.co_filename)
    kept = Path(stats.cache_path).glob(f"{source.stem}.{function.__name__}-*.nbi")
    return any(_is_newer(file, source) for file in kept)


def _is_newer(file: Path, source: Path) -> bool:
    with suppress(OSError):
        return file.stat().st_mtime >= source.stat().st_mtime
    return False


def bare_kernel(function: F) -> F:
    """Let kernels call ``function``, which allocates nothing; what calls it takes it in.

    It is not made callable for Python: to unpack the simulator's state for it, in each of its
    parts, took more than half of the time of compiling.
    """
    part: F = _part(
        nogil=True,
        error_model="numpy",
        _nrt=False,
        forceinline=True,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )(function)
    return part


def inner_kernel(function: F) -> F:
    """Let kernels call ``function``, which may allocate; Python runs it as it stands.

    A way in from Python takes about as long to compile as a short function.
    """
    part: F = _part(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
    return part


def _compiled(function: F, **options: bool) -> F:
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    compiled: F
    try:
        compiled = _njit(cache=True, error_model="numpy", **options)(function)
    except RuntimeError:
        # Neither beside the source nor in the user's cache can anything be written.
        compiled = _njit(error_model="numpy", **options)(function)
    _watch_sources(compiled)
    return compiled


def _watch_sources(compiled: Any) -> None:
    """Compile a kernel anew where a module changed that its parts or records may be from.

    What an older version kept may name types that have moved: it does not count either.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    load = getattr(file, "_load_index", None)
    if load is None:
        return

    def load_index() -> Any:
        try:
            return load()
        except (ImportError, AttributeError):
            return {}

    folder = Path(compiled.py_func.__code__.co_filename).parent
    vars(file)["_load_index"] = load_index
    vars(file)["_source_stamp"] = (vars(file)["_source_stamp"], _checksums(folder))


@cache
def _checksums(folder: Path) -> list[tuple[str, int]]:
    """Return those of the modules that kernels of a folder take in: its own, and of routes."""
    here = Path(__file__).parent
    rooms = {folder, here / "routing"}
    sources = [
        here / "_jit.py",
        here / "_llvm.py",
        *(f for room in rooms for f in room.glob("*.py")),
    ]
    return sorted((file.name, zlib.crc32(file.read_bytes())) for file in sources)


@bare_kernel
def trailing_zeros(bits: int) -> int:
    """Return the number of zero bits below the lowest one of 64; 64 for zero.

    LLVM knows this way to count the ones below it, and takes one instruction for all.
    """
    below = ~np.uint64(bits) & (np.uint64(bits) - np.uint64(1))
    below -= (below >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    below = (below & pairs) + ((below >> np.uint64(2)) & pairs)
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]


_MAX_BYTES = 2**26
_kept = threading.local()


def scratch(name: str, size: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an array of any content, this thread's own: valid until the name is asked for again.

    A fresh one costs a page fault every four kilobytes, which takes longer than many a pass over
    it. Arrays of more than 64 MB are not kept.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    if n_bytes > _MAX_BYTES:
        return np.empty(size, dtype=dtype)
    found = _kept.__dict__.get(name)
    if found is None or found.size < n_bytes:
        found = _kept.__dict__[name] = np.empty(n_bytes, dtype=np.uint8)
    return found[:n_bytes].view(dtype)
