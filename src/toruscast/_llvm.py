"""LLVM operations that numba lacks: pointers, prefetching and vector comparisons.

`benchmarks/plain_numba.py` compares them with plain numba, and ``make newest`` tests them with the
newest version of numba.
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

# The type hints of numba are incomplete.
_cgutils: Any = cgutils
_intrinsic: Any = intrinsic
_register: Any = register_default
_infer: Any = infer_getattr
_lower: Any = lower_getattr_generic
_Model: Any = models.PrimitiveModel
_Template: Any = AttributeTemplate


class Pointer(types.Type):
    """A pointer to a named tuple, with the attributes of the tuple.

    Numba passes a named tuple by value, as hundreds of arguments in every call. The compiler
    removes nearly all of them, but it has 2.9 times as much code to optimise.
    """

    def __init__(self, pointee: types.NamedTuple) -> None:
        self.pointee = pointee
        # The name of a compiled function contains the names of its argument types. The full name of
        # the tuple type has thousands of characters, so a digest identifies it.
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
def _lower_attribute(_context: Any, builder: Any, kind: Pointer, value: Any, name: str) -> Any:
    address = _cgutils.gep_inbounds(builder, value, 0, kind.pointee.fields.index(name))
    return address if isinstance(kind.field(name), Pointer) else builder.load(address)


def _point_to(_typing: Any, pointee: Any) -> Any:
    """Return a pointer to a named tuple, valid until the calling kernel returns."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _cgutils.alloca_once_value(builder, arguments[0])

    return Pointer(pointee)(pointee), build


point_to: Any = _intrinsic(_point_to)


def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Load an element of an array, by its flat index, into the cache."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        # The arguments after the address mean a read (0), to all cache levels (3), of data (1).
        load = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        builder.call(load, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build


def _compare_row(compare: Callable[[Any, Any, Any], Any], lanes: int) -> Any:
    """Return an intrinsic that compares ``lanes`` items of an array with a number, as bits.

    The items start at the given flat index. The result has one bit per item.
    """

    def compare_row(_typing: Any, array: Any, index: Any, number: Any) -> Any:
        """Return the signature for these argument types, and the function that emits the code."""

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            """Load a row, compare it with copies of the number, and pack the results into bits."""
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            row = ir.VectorType(ir.IntType(array.dtype.bitwidth), lanes)
            address = builder.bitcast(builder.gep(data, [arguments[1]]), row.as_pointer())
            value = context.cast(builder, arguments[2], number, array.dtype)
            first = builder.insert_element(ir.Constant(row, ir.Undefined), value, ir.IntType(32)(0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            broadcast = builder.shuffle_vector(first, ir.Constant(row, ir.Undefined), zeros)
            numbers = builder.load(address, align=array.dtype.bitwidth // 8)
            bits = builder.bitcast(compare(builder, numbers, broadcast), ir.IntType(lanes))
            return bits if lanes == 64 else builder.zext(bits, ir.IntType(64))

        return types.uint64(array, types.int64, number), build

    return _intrinsic(compare_row)


def _share_a_bit(builder: Any, numbers: Any, broadcast: Any) -> Any:
    shared = builder.and_(numbers, broadcast)
    return builder.icmp_unsigned("!=", shared, ir.Constant(shared.type, None))


def _are_equal(builder: Any, numbers: Any, broadcast: Any) -> Any:
    return builder.icmp_unsigned("==", numbers, broadcast)


prefetch: Any = _intrinsic(_prefetch)
sharing_of_16: Any = _compare_row(_share_a_bit, 16)
sharing_of_64: Any = _compare_row(_share_a_bit, 64)
equal_of_64: Any = _compare_row(_are_equal, 64)
