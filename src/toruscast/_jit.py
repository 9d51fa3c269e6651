"""Every numba option of the project, in one place."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba.core import caching, event
from numba.core.runtime.nrt import rtsys
from numba.extending import register_jitable
from numpy.typing import DTypeLike, NDArray

from .errors import InputWarning

# Its type hints know neither the decorated type nor every option.
_njit: Any = numba.njit
_part: Any = register_jitable
_register: Any = event.register
_Cache: Any = caching.FunctionCache
_CacheImpl: Any = _Cache._impl_class
_CacheLocator: Any = caching._CacheLocator
_IndexFile: Any = caching.IndexDataCacheFile
_config: Any = numba.config

F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger(__name__)


class _Compilations(event.Listener):
    """Records the kernels that are compiled, not those that are kept from earlier."""

    def __init__(self) -> None:
        # One inside of the other; the compiler has one lock.
        self.began: list[tuple[float, float]] = []
        self.wall = 0.0
        self.of_thread = threading.local()

    def on_start(self, event: Any) -> None:
        if not self.began and not self.wall:
            message = "compiling kernels, once on this machine: about 20 s"
            logger.warning(message, extra={"event": "compiling"})
        self.began.append((time.monotonic(), time.thread_time()))

    def on_end(self, event: Any) -> None:
        wall, thread = self.began.pop()
        if self.began:
            return
        seconds, function = time.monotonic() - wall, event.data["dispatcher"].py_func
        self.wall += seconds
        self.of_thread.seconds = self.of_this_thread + time.thread_time() - thread
        name = f"{function.__module__}.{function.__name__}"
        compiled = {"event": "compiled", "kernel": name, "seconds": seconds}
        logger.info("compiled %s, in %.3g s", name, seconds, extra=compiled)

    @property
    def of_this_thread(self) -> float:
        return getattr(self.of_thread, "seconds", 0.0)


_compilations = _Compilations()
_register("numba:compile", _compilations)


def compile_seconds() -> tuple[float, float]:
    """Return the seconds spent on compiling so far: of this thread's processor, and of the wall."""
    return _compilations.of_this_thread, _compilations.wall


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


def bare_kernel(function: F) -> F:
    """Let kernels call ``function``, which allocates nothing; what calls it takes it in.

    It is not made callable for Python: to unpack the simulator's state for it, in each of its
    parts, took more than half of the time of compiling.
    """
    return _part_of_kernels(function, _nrt=False, forceinline=True)


def inner_kernel(function: F) -> F:
    """Let kernels call ``function``, which may allocate; Python runs it as it stands.

    A way in from Python takes about as long to compile as a short function.
    """
    return _part_of_kernels(function)


def _part_of_kernels(function: F, **options: bool) -> F:
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    part: F = _part(nogil=True, error_model="numpy", **options)(function)
    return part


def _compiled(function: F, **options: bool) -> F:
    compiled: Any = _njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options)(
        function
    )
    # Without a compiler (NUMBA_DISABLE_JIT) there is nothing to keep.
    if hasattr(compiled, "_cache"):
        compiled._cache = _KernelCache(function)
    kept: F = compiled
    return kept


class _NowhereLocator(_CacheLocator):  # type: ignore[misc]
    """Stands in where neither beside the source nor for the user anything can be written."""

    def __init__(self, function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Any, _file: str) -> Self:
        return cls(function)

    def get_cache_path(self) -> str:
        return os.devnull

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    def get_source_stamp(self) -> None:
        return None


class _KernelCacheImpl(_CacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [*_CacheImpl._locator_classes, _NowhereLocator]


class _KernelCache(_Cache):  # type: ignore[misc]
    """Machine code kept between runs: in the user's folder, and as a wheel brings it.

    Code is identified by the checksums of the modules that it is made from, not by their dates,
    which differ wherever a wheel is unpacked.
    """

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        room = Path(function.__code__.co_filename).parent
        base, stamp = self._impl.filename_base, _checksums(room)
        self._cache_file = _Index(self._cache_path, base, stamp)
        # Rooms are links to folders beside the package in a clone.
        shipped = _SHIPPED / "/".join(function.__module__.split(".")[1:-1])
        self._shipped = _Index(str(shipped), base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Kept code needs numba's runtime only. What its compiler imports takes .3 s, SciPy with it.
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is None and _runs_shipped_kernels():
            parts, _, code = self._index_key(sig, target_context.codegen())
            data = self._shipped.load((parts, _SHIPPED_TARGET, code))
            found = None if data is None else self._impl.rebuild(target_context, data)
        return found

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._cache_path == os.devnull:
            folder = _config.CACHE_DIR or Path(self._py_func.__code__.co_filename).parent
            _warn_not_kept(folder, "cannot be written")
            return
        try:
            super()._save_overload(sig, data)
        except OSError as error:
            _warn_not_kept(self._cache_path, error.strerror or str(error))


@cache
def _warn_not_kept(folder: str | Path, reason: str) -> None:
    text = f"{folder}: {reason}; compiled kernels are not kept (NUMBA_CACHE_DIR names a folder)"
    warnings.warn(text, InputWarning, stacklevel=2)


class _Index(_IndexFile):  # type: ignore[misc]
    def _load_index(self) -> Any:
        # An older version may have kept names of types that have moved.
        try:
            return super()._load_index()
        except (ImportError, AttributeError, OSError):
            return {}


# Kernels that ``make wheel`` puts into a wheel, for processors from about 2013 on.
_SHIPPED_TARGET = ("x86_64-unknown-linux-gnu", "x86-64-v3", "")
_VERSIONS = f"{sys.implementation.cache_tag}-numba{numba.__version__}"
_SHIPPED = Path(__file__).parent / "_kernels" / _VERSIONS
# What LLVM assumes of that target, beyond what every processor of this architecture has.
_FEATURES = (
    *("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
)


@cache
def _runs_shipped_kernels() -> bool:
    """Whether the wheel has kernels for this Python and numba, which this processor can run."""
    if not _SHIPPED.is_dir() or get_process_triple() != _SHIPPED_TARGET[0]:
        return False
    known = get_host_cpu_features()
    return all(known.get(name) for name in _FEATURES)


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
