"""What is said of each dimension of a torus, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import as_array, real_number, whole_array

from .bluegene_routes import Groups

A = TypeVar("A", bound=NDArray[Any])

# No link is slower or faster, and with them times of any traffic stay finite.
_LEAST_BANDWIDTH, _MOST_BANDWIDTH = 1, 1e30


def wraps(value: object, ndim: int) -> tuple[bool, ...]:
    """Whether each dimension closes to a ring."""
    values = _per_dimension(value, ndim, "wrap")
    for flag in values:
        # A text or NaN would count as true.
        if not (isinstance(flag, bool | np.bool_) or (isinstance(flag, Real) and flag in (0, 1))):
            raise InputError("bad wrap", found=repr(flag), expected="True or False")
    return tuple(map(bool, values))


def bandwidths(value: object, ndim: int) -> tuple[float, ...]:
    """Bytes per second of a link in each dimension."""
    what = "bandwidth in bytes per second"
    values = _per_dimension(value, ndim, "bandwidth")
    return tuple(real_number(b, what, _LEAST_BANDWIDTH, _MOST_BANDWIDTH) for b in values)


def routing_order(value: object, ndim: int) -> tuple[int, ...]:
    """Permutation of the dimensions; as they stand if there is none."""
    if isinstance(value, Iterable) and not isinstance(value, np.ndarray | str):
        value = tuple(value)
    order = () if value is None else tuple(whole_array(value, "routing order").tolist())  # type: ignore[arg-type]
    order = order or tuple(range(ndim))
    if sorted(order) != list(range(ndim)):
        expected = f"a permutation of 0..{ndim - 1}"
        raise InputError("bad routing order", found=order, expected=expected)
    return order


def zones(value: object, ndim: int) -> Groups | Literal["bluegene_q"]:
    """Groups of dimensions that hold each dimension once, or the name of a rule that has some."""
    expected = f"groups that hold each dimension 0 to {ndim - 1} once"
    expected += ", or bluegene_q" if ndim == 5 else " (bluegene_q: of five dimensions)"
    if ndim == 5 and isinstance(value, str) and value == "bluegene_q":
        return "bluegene_q"
    try:
        groups = tuple(tuple(group) for group in value)  # type: ignore[attr-defined]
        groups = tuple(tuple(whole_array(group, "zones").tolist()) for group in groups)
    except (TypeError, ValueError) as error:
        raise InputError("bad zones", found=value, expected=expected) from error
    if groups and (
        not all(groups) or sorted(d for group in groups for d in group) != list(range(ndim))
    ):
        raise InputError("bad zones", found=groups, expected=expected)
    return groups


def axes(value: object, ndim: int) -> str:
    """A letter for each dimension."""
    given = "" if value is None else value
    if not isinstance(given, str) or not re.fullmatch("[A-SU-Za-z]*", given):
        raise InputError("bad axes", found=value, expected="letters, none of them T")
    letters = given or ("XYZ" if ndim <= 3 else "ABCDEFGH")[:ndim]
    if len(letters) != ndim or len(set(letters)) != ndim:
        raise InputError("bad axes", found=value, expected=f"{ndim} different letters")
    return letters


def _per_dimension(value: object, ndim: int, name: str) -> tuple[object, ...]:
    """One value per dimension, from one for all or one each."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    several = isinstance(value, Iterable) and not isinstance(value, str)
    values = tuple(value) if several else (value,)  # type: ignore[arg-type]
    if len(values) == 1:
        values = values * ndim
    if len(values) != ndim:
        expected = f"one value, or {ndim}: one a dimension"
        raise InputError(f"bad {name}", found=value, expected=expected)
    return values


def node_numbers(coords: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return the node numbers of coordinates of shape ``(..., ndim)``."""
    ndim = len(shape)
    c = as_array(coords, "coordinates", f"(..., {ndim})")
    if c.ndim == 0 or c.shape[-1] != ndim:
        raise InputError("bad coordinates", found=c.shape, expected=f"(..., {ndim})")
    if c.size and c.dtype.kind not in "iu":
        raise InputError("bad coordinates", found=c.dtype, expected="whole numbers")
    if c.size and ((c < 0).any() or (c >= np.array(shape)).any()):
        raise InputError("coordinate outside the torus", found=c.tolist(), expected=shape)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    return np.asarray((c * strides).sum(axis=-1), dtype=np.int32)


def nodes_of(nodes: ArrayLike, n_nodes: int) -> NDArray[np.int32]:
    """Return node numbers as an array; raise `InputError` if one is not valid."""
    array = as_array(nodes, "node", "whole numbers")
    if array.size and array.dtype.kind not in "iu":
        raise InputError("bad node", found=array.dtype, expected="whole numbers")
    if array.size and (array.min() < 0 or array.max() >= n_nodes):
        bad = array.min() if array.min() < 0 else array.max()
        raise InputError("node out of range", found=bad, expected=f"0 to {n_nodes - 1}")
    return array.astype(np.int32, copy=False)


def frozen(array: A) -> A:
    """Return an array that can no longer be written to."""
    array.setflags(write=False)
    return array
