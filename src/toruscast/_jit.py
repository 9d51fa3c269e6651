"""Every numba option of the project, in one place."""

from __future__ import annotations

import logging
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core import event
from numba.extending import intrinsic, register_jitable

# Its type hints know neither the decorated type nor every option.
_njit: Any = numba.njit
_intrinsic: Any = intrinsic
_part: Any = register_jitable
_register: Any = event.register

F = TypeVar("F", bound=Callable[..., Any])
_bare: set[Any] = set()
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
    _bare.add(function)
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
    _bare.add(function)
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
    _forgive_old_files(compiled)
    _know_its_parts(compiled)
    return compiled


def _forgive_old_files(compiled: Any) -> None:
    """Let a kernel be compiled anew where what an older version kept names types that have moved.

    numba reads these names before it compares the dates of the files.
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

    vars(file)["_load_index"] = load_index


def _know_its_parts(compiled: Any) -> None:
    """Let a kernel be compiled anew where a module changes that its parts or records are from.

    numba compares the kernel's own file only.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if not hasattr(file, "_source_stamp"):
        return
    parts = _modules_behind(compiled.py_func.__module__)
    vars(file)["_source_stamp"] = (vars(file)["_source_stamp"], parts)


@cache
def _modules_behind(name: str) -> list[tuple[str, object]]:
    """Return the checksums of modules that kernels of a module are made of, and their constants."""
    room = __name__.partition(".")[0]
    seen: dict[str, object] = {}
    to_walk, walked = [name], {name}
    while to_walk:
        here = to_walk.pop()
        for label, value in list(vars(sys.modules[here]).items()):
            if isinstance(value, int | float):
                seen[f"{here}.{label}"] = value
            module = getattr(value, "__module__", None) or ""
            is_part = isinstance(value, FunctionType) and value in _bare
            if not is_part and module.partition(".")[0] != room:
                continue
            if module not in seen:
                # A packed program has no files.
                with suppress(OSError):
                    seen[module] = zlib.crc32(Path(str(sys.modules[module].__file__)).read_bytes())
            if is_part and module not in walked:
                walked.add(module)
                to_walk.append(module)
    return sorted(seen.items())


def _trailing_zeros(_typing: Any, bits: Any) -> Any:
    """Number of zero bits below the lowest one of an unsigned 64-bit number; 64 for zero."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), build


def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Ask for an element of an array, counted through all rows, to be brought into the cache."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = ir.IntType(8).as_pointer()
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        word = ir.IntType(32)
        ask = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        builder.call(ask, [place, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


def _which(compare: Callable[[Any, Any, Any], Any], lanes: int) -> Any:
    """Intrinsic: bits of those of some numbers of an array, in a row, that compare with a number.

    A vector of a processor compares them at once; a loop with a branch for each takes many times as
    long where nothing foretells the answers.
    """

    def which(_typing: Any, array: Any, index: Any, number: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            element = ir.IntType(array.dtype.bitwidth)
            row = ir.VectorType(element, lanes)
            place = builder.bitcast(builder.gep(data, [arguments[1]]), row.as_pointer())
            value = context.cast(builder, arguments[2], number, array.dtype)
            first = builder.insert_element(ir.Constant(row, ir.Undefined), value, ir.IntType(32)(0))
            order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            every = builder.shuffle_vector(first, ir.Constant(row, ir.Undefined), order)
            numbers = builder.load(place, align=array.dtype.bitwidth // 8)
            bits = builder.bitcast(compare(builder, numbers, every), ir.IntType(lanes))
            return bits if lanes == 64 else builder.zext(bits, ir.IntType(64))

        return types.uint64(array, types.int64, number), build

    return _intrinsic(which)


def _share_a_bit(builder: Any, numbers: Any, every: Any) -> Any:
    shared = builder.and_(numbers, every)
    return builder.icmp_unsigned("!=", shared, ir.Constant(shared.type, None))


def _are_equal(builder: Any, numbers: Any, every: Any) -> Any:
    return builder.icmp_unsigned("==", numbers, every)


trailing_zeros: Any = _intrinsic(_trailing_zeros)
prefetch: Any = _intrinsic(_prefetch)
sharing_of_16: Any = _which(_share_a_bit, 16)
sharing_of_64: Any = _which(_share_a_bit, 64)
equal_of_64: Any = _which(_are_equal, 64)
