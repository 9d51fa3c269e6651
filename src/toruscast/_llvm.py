"""What kernels need of LLVM and numba does not offer: pointers, prefetching, rows compared at once.

`benchmarks/plain_numba.py` measures each against what numba alone offers, and
`tests/house/test_llvm.py` tries them on the numba at hand; ``make newest`` takes the newest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic

# Its type hints know neither what these decorate nor what they return.
_cgutils: Any = cgutils
_intrinsic: Any = intrinsic
_register: Any = register_default
_infer: Any = infer_getattr
_lower: Any = lower_getattr_generic
_Model: Any = models.PrimitiveModel
_Template: Any = AttributeTemplate


class Pointer(types.Type):
    """Pointer to a named tuple; its attributes are those of the tuple.

    By value, every call takes all arrays apart and puts them together again: hundreds of values, of
    which the compiler then removes nearly all. What it makes is as fast, but 2.9 times as large.
    """

    def __init__(self, pointee: types.NamedTuple) -> None:
        self.pointee = pointee
        # Names of functions hold those of their arguments' types; the full one has thousands of
        # letters. Equal names must mean equal types between runs too, because code is kept.
        digest = hashlib.sha256(pointee.name.encode()).hexdigest()[:16]
        super().__init__(f"{pointee.instance_class.__name__}_{digest}")

    def field(self, name: str) -> Any:
        """Return the type of an attribute."""
        kind = self.pointee.types[self.pointee.fields.index(name)]
        return Pointer(kind) if isinstance(kind, types.NamedTuple) else kind


@_register(Pointer)
class _PointerModel(_Model):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Pointer) -> None:
        pointee = manager.lookup(kind.pointee).get_value_type()
        super().__init__(manager, kind, pointee.as_pointer())


@_infer
class _PointerAttributes(_Template):  # type: ignore[misc]
    key = Pointer

    def generic_resolve(self, kind: Pointer, name: str) -> Any:
        return kind.field(name) if name in kind.pointee.fields else None


@_lower(Pointer)  # type: ignore[untyped-decorator]
def _attribute(_context: Any, builder: Any, kind: Pointer, value: Any, name: str) -> Any:
    place = _cgutils.gep_inbounds(builder, value, 0, kind.pointee.fields.index(name))
    return place if isinstance(kind.field(name), Pointer) else builder.load(place)


def _point_to(_typing: Any, pointee: Any) -> Any:
    """Pointer to a named tuple, valid until the kernel returns that makes it."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _cgutils.alloca_once_value(builder, arguments[0])

    return Pointer(pointee)(pointee), build


point_to: Any = _intrinsic(_point_to)


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
    """Intrinsic: a bit for each number of a row of an array that compares with a number."""

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


prefetch: Any = _intrinsic(_prefetch)
sharing_of_16: Any = _which(_share_a_bit, 16)
sharing_of_64: Any = _which(_share_a_bit, 64)
equal_of_64: Any = _which(_are_equal, 64)
