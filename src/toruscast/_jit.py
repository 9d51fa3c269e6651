"""Decorators that set the numba options of all kernels, and the cache of compiled kernels."""

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

# The type hints of numba are incomplete.
_njit: Any = numba.njit
_register_jitable: Any = register_jitable
_register_listener: Any = event.register
_Cache: Any = caching.FunctionCache
_CacheImpl: Any = _Cache._impl_class
_CacheLocator: Any = caching._CacheLocator
_IndexFile: Any = caching.IndexDataCacheFile
_config: Any = numba.config

F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger(__name__)


class _CompilationListener(event.Listener):
    """Measures compilation times; numba calls its methods, but not for kernels from the cache."""

    def __init__(self) -> None:
        # Start times of nested compilations; the compiler's global lock protects the list.
        self.starts: list[tuple[float, float]] = []
        self.wall_seconds = 0.0
        self.local = threading.local()

    def on_start(self, event: Any) -> None:
        if not self.starts and not self.wall_seconds:
            message = "compiling kernels, once on this machine: about a minute"
            logger.warning(message, extra={"event": "compiling"})
        self.starts.append((time.monotonic(), time.thread_time()))

    def on_end(self, event: Any) -> None:
        """Add the time of a compilation, unless it is part of another one."""
        wall, thread = self.starts.pop()
        if self.starts:
            return
        seconds, function = time.monotonic() - wall, event.data["dispatcher"].py_func
        self.wall_seconds += seconds
        self.local.seconds = self.thread_seconds + time.thread_time() - thread
        name = f"{function.__module__}.{function.__name__}"
        details = {"event": "compiled", "kernel": name, "seconds": seconds}
        logger.info("compiled %s, in %.3g s", name, seconds, extra=details)

    @property
    def thread_seconds(self) -> float:
        return getattr(self.local, "seconds", 0.0)


_compilations = _CompilationListener()
_register_listener("numba:compile", _compilations)


def compile_seconds() -> tuple[float, float]:
    """Return the seconds spent compiling so far: processor time of this thread, and wall time."""
    return _compilations.thread_seconds, _compilations.wall_seconds


def kernel(function: F) -> F:
    """Compile ``function`` to cached machine code that releases the interpreter lock.

    A division by zero raises no error, which saves a branch per division.
    """
    return _compile(function)


def entry_kernel(function: F) -> F:
    """Compile a kernel that calls bare kernels, without reference counting of its arrays.

    Reference counting of tuples of arrays can take longer than the computation.
    """
    return _compile(function, _nrt=False)


def bare_kernel(function: F) -> F:
    """Make ``function`` available for inlining in kernels; it must not allocate memory.

    It has no Python wrapper. The wrapper would unpack the simulator's state, which would more than
    double the compilation time.
    """
    return _compile_callee(function, _nrt=False, forceinline=True)


def inner_kernel(function: F) -> F:
    """Make ``function`` available to kernels; it may allocate memory. Python runs it uncompiled.

    It has no Python wrapper, because a wrapper takes as long to compile as a short function.
    """
    return _compile_callee(function)


def _compile_callee(function: F, **options: bool) -> F:
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    callee: F = _register_jitable(nogil=True, error_model="numpy", **options)(function)
    return callee


def _compile(function: F, **options: bool) -> F:
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    compiled: Any = _njit(error_model="numpy", **options)(function)
    # With NUMBA_DISABLE_JIT set, numba returns a plain function.
    if hasattr(compiled, "_cache"):
        compiled._cache = _KernelCache(function)
    return compiled  # type: ignore[no-any-return]


class _NowhereLocator(_CacheLocator):  # type: ignore[misc]
    """The locator for functions whose cache has no writable folder."""

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
    """A cache of compiled kernels in the user's folder and in the wheel.

    Keys contain checksums of source files, because unpacking a wheel changes the files' dates.
    """

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        folder = Path(function.__code__.co_filename).parent
        base, stamp = self._impl.filename_base, _compute_checksums(folder)
        self._cache_file = _KernelIndex(self._cache_path, base, stamp)
        # Use the module name, because in a clone, this folder is a link to one outside the package.
        shipped = _SHIPPED / "/".join(function.__module__.split(".")[1:-1])
        self._shipped = _KernelIndex(str(shipped), base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached kernel for these argument types; None if it must be compiled."""
        # Initialise only the runtime for cached code, because importing the compiler takes 0.3 s.
        rtsys.initialize(target_context)
        overload = super()._load_overload(sig, target_context)
        if overload is None and _supports_shipped_kernels():
            signature, _, code = self._index_key(sig, target_context.codegen())
            data = self._shipped.load((signature, _SHIPPED_TARGET, code))
            overload = None if data is None else self._impl.rebuild(target_context, data)
        return overload

    def _save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled kernel to the user's cache; warn if that is not possible."""
        if self._cache_path == os.devnull:
            folder = _config.CACHE_DIR or Path(self._py_func.__code__.co_filename).parent
            _warn_not_cached(folder, "cannot be written")
            return
        try:
            super()._save_overload(sig, data)
        except OSError as error:
            _warn_not_cached(self._cache_path, error.strerror or str(error))


@cache
def _warn_not_cached(folder: str | Path, reason: str) -> None:
    text = f"{folder}: {reason}; compiled kernels are not kept (NUMBA_CACHE_DIR names a folder)"
    warnings.warn(text, InputWarning, stacklevel=2)


class _KernelIndex(_IndexFile):  # type: ignore[misc]
    def _load_index(self) -> Any:
        # An index from another version may contain types that this version does not have.
        try:
            return super()._load_index()
        except (ImportError, AttributeError, OSError):
            return {}


# ``make wheel`` compiles kernels for processors made since about 2013.
_SHIPPED_TARGET = ("x86_64-unknown-linux-gnu", "x86-64-v3", "")
_VERSIONS = f"{sys.implementation.cache_tag}-numba{numba.__version__}"
_SHIPPED = Path(__file__).parent / "_kernels" / _VERSIONS
# Processor features of this target.
_FEATURES = (
    *("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
)


@cache
def _supports_shipped_kernels() -> bool:
    """Whether the wheel has kernels for this Python, numba and processor."""
    if not _SHIPPED.is_dir() or get_process_triple() != _SHIPPED_TARGET[0]:
        return False
    available = get_host_cpu_features()
    return all(available.get(name) for name in _FEATURES)


@cache
def _compute_checksums(folder: Path) -> list[tuple[str, int]]:
    """Return the checksums of all modules from which kernels in a folder may inline functions."""
    package = Path(__file__).parent
    modules = {*folder.glob("*.py"), *(package / "routing").glob("*.py")}
    sources = [package / "_jit.py", package / "_llvm.py", *modules]
    return sorted((file.name, zlib.crc32(file.read_bytes())) for file in sources)


@bare_kernel
def trailing_zeros(bits: int) -> int:
    """Return the number of trailing zero bits of a 64-bit number; 64 for zero.

    LLVM compiles this population count of the trailing bits to one instruction.
    """
    below = ~np.uint64(bits) & (np.uint64(bits) - np.uint64(1))
    below -= (below >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    below = (below & pairs) + ((below >> np.uint64(2)) & pairs)
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]


_MAX_BYTES = 2**26
_buffers = threading.local()


def scratch(name: str, size: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an uninitialised array, valid until this thread's next call with the same name.

    Reusing memory avoids a page fault for every four kB. Arrays above 64 MB are not reused.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    if n_bytes > _MAX_BYTES:
        return np.empty(size, dtype=dtype)
    buffer = _buffers.__dict__.get(name)
    if buffer is None or buffer.size < n_bytes:
        buffer = _buffers.__dict__[name] = np.empty(n_bytes, dtype=np.uint8)
    return buffer[:n_bytes].view(dtype)
