"""Attributes and modules that are computed or imported on first use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class LazyModule:
    """A module that is imported on the first access to an attribute.

    `importlib.util.LazyLoader` is not thread-safe, and adds the module to `sys.modules` at once.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


def lazy_modules(name: str) -> dict[str, LazyModule]:
    """Return a lazy module for each import under ``if TYPE_CHECKING`` in a module's source."""
    loader: Any = sys.modules[name].__loader__
    modules = {}
    for block in ast.parse(loader.get_source(name)).body:
        for node in block.body if isinstance(block, ast.If) else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                for each in node.names:
                    modules[each.asname or each.name] = LazyModule(package + each.name)
    return modules


class lazy(Generic[T]):  # noqa: N801
    """`functools.cached_property` without a lock.

    In Python 3.11 all instances of a class share this lock, so threads that simulate different
    mappings would wait for each other. Without the lock, two threads may both compute a value.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        value = self.function(instance)
        # Later lookups find the value in the instance's dictionary, before this descriptor.
        instance.__dict__[self.name] = value
        return value


class PickledByFields:
    """A dataclass that is pickled without its `lazy` values, which workers recompute."""

    def __getstate__(self) -> dict[str, Any]:
        instance: Any = self
        return {field.name: getattr(self, field.name) for field in fields(instance)}
