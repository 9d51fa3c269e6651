"""Named tuples of many arrays that kernels hand on to each other by a pointer.

By value, every call takes all arrays apart and puts them together again: hundreds of values, of
which the compiler then removes nearly all. That took more than half of the time of compiling. All
kernels that take the pointer are inlined into the one that makes it, so the machine code is the
same.
"""

from __future__ import annotations

import hashlib
from typing import Any

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
    """Pointer to a named tuple; its attributes are those of the tuple."""

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
