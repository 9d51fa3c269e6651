"""Attributes that are computed, and packages that are imported, when first asked for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Slow:
    """A module that is imported when an attribute of it is first asked for.

    That of `importlib.util.LazyLoader` is not safe in threads, and counts as imported at once.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


def slow_modules(name: str) -> dict[str, Slow]:
    """Return what a module imports for type checkers alone, each imported when first used."""
    loader: Any = sys.modules[name].__loader__
    found = {}
    for block in ast.parse(loader.get_source(name)).body:
        for node in block.body if isinstance(block, ast.If) else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                above = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                for each in node.names:
                    found[each.asname or each.name] = Slow(above + each.name)
    return found


class lazy(Generic[T]):  # noqa: N801
    """`functools.cached_property` without its lock.

    In Python 3.11 all instances of a class share that lock, so that threads that simulate different
    mappings wait for each other. Two that ask the same instance at once compute the value twice.
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
        # Found before this descriptor from now on.
        instance.__dict__[self.name] = value
        return value


class PickledByFields:
    """A dataclass that is pickled without its `lazy` values: workers compute their own.

    A torus of 65,536 nodes would else go with each of its mappings, coordinates and all.
    """

    def __getstate__(self) -> dict[str, Any]:
        instance: Any = self
        return {field.name: getattr(self, field.name) for field in fields(instance)}
