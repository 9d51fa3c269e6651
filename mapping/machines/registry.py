"""Every preset by name, and how the text of a machine or a torus is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from toruscast.errors import InputError
from toruscast.validation import read_sizes

from ..torus import Torus, parse_sizes
from ..twist import split_twist
from .anton import anton3
from .bluegene import bluegene_l, bluegene_p, bluegene_q
from .cray import gemini, seastar
from .fujitsu import k_computer, tofu_d
from .tenstorrent import galaxy
from .tpu_cube import tpu7x, tpu_v4, tpu_v5p
from .tpu_square import tpu_v2, tpu_v3, tpu_v5e, tpu_v6e
from .trainium import trainium1, trainium2

Preset = Callable[..., Torus]

_PRESETS: dict[str, Preset] = {
    preset.__name__: preset
    for preset in (
        anton3,
        bluegene_l,
        bluegene_p,
        bluegene_q,
        galaxy,
        gemini,
        k_computer,
        seastar,
        tofu_d,
        tpu7x,
        tpu_v2,
        tpu_v3,
        tpu_v4,
        tpu_v5e,
        tpu_v5p,
        tpu_v6e,
        trainium1,
        trainium2,
    )
}
# What people call a machine besides.
_ALSO = {"fugaku": "tofu_d"}


def names() -> tuple[str, ...]:
    """Return the names of the presets.

    Examples
    --------
    >>> "bluegene_q" in names()
    True
    """
    return tuple(_PRESETS)


def preset(name: str) -> Preset:
    """Return the function that makes a machine, by its name.

    Raises
    ------
    InputError
        If the machine is not known.

    Examples
    --------
    >>> preset("Fugaku").__name__
    'tofu_d'
    """
    key = name.lower().replace("-", "_")
    found = _PRESETS.get(_ALSO.get(key, key))
    if found is None:
        raise InputError("unknown machine", found=name, expected=" or ".join(_PRESETS))
    return found


def get(text: str) -> Torus:
    """Return a machine by its short form: ``name``, ``name:shape`` or ``bluegene_q:nodes``.

    An ``m`` after a size makes that dimension a mesh, where sites or jobs decide what wraps (Blue
    Gene/Q, the Crays, Fujitsu's, Galaxy); other machines decide that by the shape. The text that a
    machine is printed as, ``name shape``, is read too. ``:untwisted`` behind the sizes of a slice
    of TPU v4 or v5p makes a plain torus of one that is twisted.

    Raises
    ------
    InputError
        If the machine is not known or does not take that shape.

    Examples
    --------
    >>> get("bluegene_q:1024") == get("bluegene_q:4x4x4x8x2")
    True
    >>> str(get("tpu_v4:2x2x4"))
    'tpu_v4 2mx2mx4m'
    >>> get("tpu_v4 2mx2mx4m") == get("tpu_v4:2x2x4")
    True
    >>> get("tpu_v4:4x4x8").diameter, get("tpu_v4:4x4x8:untwisted").diameter
    (6, 8)
    """
    name, separator, rest = _split(text)
    make = preset(name)
    if not separator:
        return make()
    if not rest:
        form = str(make()).replace(" ", ":")
        expected = f"{make.__name__} alone, or with sizes as in {form}"
        raise InputError("machine without its sizes", found=text, expected=expected)
    if make is bluegene_q:
        sizes = read_sizes(rest)
        if sizes is not None and len(sizes) == 1:
            return bluegene_q(nodes=sizes[0])
    sizes_alone, twisted = split_twist(rest)
    given = parse_sizes(sizes_alone)
    if make is bluegene_q and len(given.shape) == 1:
        expected = "five sizes, an m after those of a mesh, or a number of nodes alone"
        raise InputError("bad Blue Gene/Q shape", found=rest, expected=expected)
    takes = inspect.signature(make).parameters
    options = {} if twisted is None else {"twisted": twisted}
    if options and "twisted" not in takes:
        raise InputError(
            "machine that is not twisted", found=text, expected=name + ":" + sizes_alone
        )
    try:
        made = make(given.shape, **options)
        if "wrap" in takes and not all(given.wrap):
            # Of the six dimensions of Fujitsu's machines the first three may differ.
            outer = 3 if len(made.shape) == 6 else len(made.shape)
            made = make(given.shape, wrap=given.wrap[:outer])
    except InputError as error:
        found = rest if isinstance(error.found, tuple) else error.found
        raise InputError(error.message, found=found, expected=error.expected) from None
    if not all(given.wrap) and made.wrap != given.wrap:
        expected = str(made).replace(" ", ":")
        raise InputError(
            "machine decides itself which dimensions wrap", found=text, expected=expected
        )
    return made


def _split(text: str) -> tuple[str, str, str]:
    """Name of a machine, what separates it from its sizes, and these."""
    if not isinstance(text, str):
        raise InputError("bad machine", found=repr(text), expected="a text such as tpu_v4:4x4x8")
    name = re.split(r"[\s:]", text.strip(), maxsplit=1)[0]
    rest = text.strip()[len(name) :].strip()
    return name, rest[:1], rest.removeprefix(":").strip()
