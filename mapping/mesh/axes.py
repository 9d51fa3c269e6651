"""The axes of a logical mesh: names and sizes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from toruscast.errors import InputError
from toruscast.validation import whole_sizes

_FORM = "axes such as data=8,fsdp=4,tensor=4"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class MeshAxes:
    """The axes of a logical mesh, the last one varying fastest.

    Parameters
    ----------
    names : sequence of str
    sizes : sequence of int

    Raises
    ------
    InputError
        If there is no axis, a name stands twice, or a size is below 1.

    Examples
    --------
    >>> axes = MeshAxes(("data", "tensor"), (8, 4))
    >>> str(axes), axes.n_tasks
    ('data=8,tensor=4', 32)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        names = tuple(self.names)
        sizes = whole_sizes(self.sizes, "sizes of the mesh")
        if not names or len(names) != len(sizes):
            raise InputError("bad mesh", found=f"{names} {sizes}", expected="a size for each name")
        for name in names:
            if not isinstance(name, str) or _NAME.fullmatch(name) is None:
                raise InputError("bad name of an axis", found=repr(name), expected="a word")
        if len({*names}) < len(names):
            raise InputError("axis stands twice", found=", ".join(names), expected="each once")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "sizes", sizes)

    @property
    def n_tasks(self) -> int:
        """Devices of the mesh."""
        return math.prod(self.sizes)

    def number(self, name: str) -> int:
        """Return which axis has a name.

        Raises
        ------
        InputError
            If none has.
        """
        if name not in self.names:
            raise InputError("unknown axis", found=name, expected=" or ".join(self.names))
        return self.names.index(name)

    def __str__(self) -> str:
        pairs = zip(self.names, self.sizes, strict=True)
        return ",".join(f"{name}={size}" for name, size in pairs)


def parse_axes(text: str) -> MeshAxes:
    """Read axes from ``data=8,fsdp=4,tensor=4``.

    Raises
    ------
    InputError
        If it is of another form.

    Examples
    --------
    >>> parse_axes("data=8,tensor=4").sizes
    (8, 4)
    """
    names, sizes = [], []
    for part in text.split(","):
        name, equals, size = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(r"[0-9]{1,9}", size) or int(size) < 1:
            raise InputError("bad axes", found=text, expected=_FORM)
        names.append(name)
        sizes.append(int(size))
    return MeshAxes(tuple(names), tuple(sizes))
