"""What a step of a sharded model sends along the axes of its mesh, and its short form."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import read_bytes, real_number, whole_array, whole_number

from .axes import MeshAxes

# Each with other spellings of it, hyphens and underscores left out.
COLLECTIVES = {
    "allreduce": ("psum",),
    "allgather": (),
    "reduce_scatter": ("psumscatter",),
    "alltoall": (),
    "permute": ("collectivepermute", "ppermute", "shift"),
    "pipeline": (),
    "exchange": (),
}
ALGORITHMS = ("ring", "two-way-ring", "bucket")
_SPELLINGS = {
    word: name for name, others in COLLECTIVES.items() for word in (name.replace("_", ""), *others)
}
FORM = "AXIS:COLLECTIVE:SIZE such as tensor:allreduce:64MB"
# More than any memory holds, and little enough for sums of packets.
_MOST_BYTES = 1e15
_IN_ROUNDS = ("allreduce", "allgather", "reduce_scatter")


@dataclass(frozen=True, eq=False)
class MeshTraffic:
    """A collective that every group of a step runs.

    Parameters
    ----------
    collective : str
        ``allreduce``, ``allgather``, ``reduce_scatter`` or ``alltoall``; ``permute`` (each sends to
        the next round the axis), ``pipeline`` (the last one sends to none) or ``exchange`` (each
        with both neighbours round the axis).
    nbytes : float
        Size of the whole buffer: of the vector that is reduced, of the gathered one, of what each
        sends in an all-to-all, of one message of the others.
    axes : sequence of str
        Axes along which the groups lie; several make groups of their product.
    groups : array-like of int, shape (n_groups, n), optional
        Instead of axes: the tasks of each group, by their number in the mesh in C order.
    pairs : array-like of int, shape (n_pairs, 2), optional
        Instead of axes, for a permute: who sends to whom.
    algorithm : str
        ``ring``, ``two-way-ring`` or ``bucket`` (rings along all dimensions of the torus that a
        group spans, at once); whichever is fastest if empty.
    times : int
        How often a step runs it.
    name : str
        A label for reports.

    Raises
    ------
    InputError
        If one of these is not valid.

    Examples
    --------
    >>> MeshTraffic("allreduce", 64e6, ("tensor",)).label
    'tensor allreduce'
    """

    collective: str
    nbytes: float
    axes: tuple[str, ...] = ()
    groups: NDArray[np.int64] | None = None
    pairs: NDArray[np.int64] | None = None
    algorithm: str = ""
    times: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        kind = _SPELLINGS.get(re.sub("[-_]", "", str(self.collective)).lower())
        if kind is None:
            found, expected = self.collective, " or ".join(COLLECTIVES)
            raise InputError("unknown collective", found=found, expected=expected)
        algorithm = str(self.algorithm).replace("_", "-")
        if algorithm and (kind not in _IN_ROUNDS or algorithm not in ALGORITHMS):
            takes = " or ".join(ALGORITHMS) if kind in _IN_ROUNDS else "none"
            raise InputError(f"bad algorithm of {kind}", found=self.algorithm, expected=takes)
        given = [bool(self.axes), self.groups is not None, self.pairs is not None]
        if sum(given) != 1:
            raise InputError("traffic without a place", expected="axes, groups or pairs")
        if self.pairs is not None and kind != "permute":
            raise InputError("pairs of a collective", found=kind, expected="permute")
        real_number(self.nbytes, "nbytes", 0, _MOST_BYTES)
        whole_number(self.times, "times", 1)
        object.__setattr__(self, "collective", kind)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "axes", tuple(self.axes))
        for field in ("groups", "pairs"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _table(getattr(self, field), field))

    @property
    def label(self) -> str:
        """What it is called in reports."""
        where = "+".join(self.axes) or "groups"
        return self.name or f"{where} {self.collective}"

    def check(self, axes: MeshAxes) -> None:
        """Raise `InputError` if an axis or a task is not one of the mesh, or stands twice."""
        for name in self.axes:
            axes.number(name)
        if len({*self.axes}) < len(self.axes):
            raise InputError("axis stands twice", found="+".join(self.axes), expected="each once")
        table = self.groups if self.groups is not None else self.pairs
        if table is None:
            return
        if table.size and not 0 <= table.min() <= table.max() < axes.n_tasks:
            found = int(table.min() if table.min() < 0 else table.max())
            raise InputError(
                f"task of {self.label} out of range",
                found=found,
                expected=f"0 to {axes.n_tasks - 1}",
            )
        columns = (table.ravel(),) if self.pairs is None else tuple(table.T)
        if any(np.unique(column).size < column.size for column in columns):
            raise InputError(f"task stands twice in {self.label}", expected="each once")

    def group_table(self, axes: MeshAxes) -> NDArray[np.int64]:
        """Return the tasks of each group in their order, ``(n_groups, n)``.

        Examples
        --------
        >>> axes = MeshAxes(("data", "tensor"), (2, 3))
        >>> MeshTraffic("allreduce", 8, ("data",)).group_table(axes).tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
        if self.groups is not None:
            return self.groups
        if self.pairs is not None:
            return self.pairs
        return along(np.arange(axes.n_tasks).reshape(axes.sizes), axes, self.axes)


def along(mesh: NDArray[np.int64], axes: MeshAxes, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the entries of a mesh by groups along some axes, the last one fastest."""
    last = [axes.number(name) for name in names]
    others = [d for d in range(len(axes.sizes)) if d not in last]
    size = int(np.prod([axes.sizes[d] for d in last]))
    return np.ascontiguousarray(mesh.transpose(*others, *last).reshape(-1, size))


def _table(values: ArrayLike, what: str) -> NDArray[np.int64]:
    rows = np.asarray(values)
    if rows.ndim != 2 or (what == "pairs" and rows.shape[1] != 2):
        raise InputError(f"bad {what}", found=rows.shape, expected="rows of as many tasks each")
    return whole_array(rows.ravel(), what).reshape(rows.shape)


def parse_traffic(text: str) -> tuple[MeshTraffic, ...]:
    """Read traffic from its short form, ``AXIS:COLLECTIVE[/ALGORITHM]:SIZE[:TIMES]``, by commas.

    Several axes joined by ``+`` mean groups of their product.

    Raises
    ------
    InputError
        If it is of another form.

    Examples
    --------
    >>> [(each.label, each.nbytes) for each in parse_traffic("t:allreduce:64MB,d+t:allgather:1e6")]
    [('t allreduce', 64000000.0), ('d+t allgather', 1000000.0)]
    """
    return tuple(_one(part.strip()) for part in text.split(","))


def _one(text: str) -> MeshTraffic:
    words = [word.strip() for word in text.split(":")]
    if len(words) not in (3, 4) or not all(words):
        raise InputError("bad traffic", found=text, expected=FORM)
    kind, _, algorithm = words[1].partition("/")
    times = words[3] if len(words) == 4 else "1"
    if not (times.isascii() and times.isdecimal() and 1 <= len(times) <= 9 and int(times)):
        raise InputError("bad traffic", found=text, expected=f"{FORM}, or :64MB:12 for 12 times")
    names = tuple(name.strip() for name in words[0].split("+"))
    return MeshTraffic(kind, read_bytes(words[2]), names, algorithm=algorithm, times=int(times))
