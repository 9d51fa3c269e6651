"""Presets of machines with a torus network, each from public sources.

A docstring says which numbers are published and which are assumed because they are not. Where
nothing else is said, packet and buffer sizes and the software overhead are the defaults of
`Network`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape, read_sizes, whole_number

from ._dimensions import wraps
from .accelerators import tpu_v4, tpu_v5p, trainium2
from .bluegene_routes import routing_order
from .network import Network
from .torus import Torus
from .torus_text import parse_sizes

__all__ = [
    "bluegene_p",
    "bluegene_q",
    "gemini",
    "get",
    "names",
    "parse_torus",
    "tofu_d",
    "tpu_v4",
    "tpu_v5p",
    "trainium2",
]

# What stands in sizes, however they are mistyped.
SIZES = frozenset("0123456789xm ")

_BLUEGENE_Q: dict[int, tuple[int, ...]] = {
    32: (2, 2, 2, 2, 2),
    64: (2, 2, 4, 2, 2),
    128: (2, 2, 4, 4, 2),
    256: (4, 2, 4, 4, 2),
    512: (4, 4, 4, 4, 2),
    1024: (4, 4, 4, 8, 2),
    2048: (4, 4, 8, 8, 2),
    4096: (4, 4, 8, 16, 2),
}


def bluegene_q(
    shape: Sequence[int] | None = None,
    *,
    nodes: int | None = None,
    wrap: bool | Sequence[bool] = True,
) -> Torus:
    """Return a Blue Gene/Q block: five dimensions A B C D E, 2 GB/s a link each way.

    Parameters
    ----------
    shape : sequence of int, optional
        Nodes along A to E.
    nodes : int, optional
        Instead of the shape: 32, 64, ..., 2048 (the shapes of SciNet's machine) or 4096 (the first
        of two used by Jain et al., SC'13); 512 if neither is given.
    wrap : bool or sequence of bool
        False for a dimension that is a mesh; the 1,024-node block 4x4x4x8x2 of Mira, for one, did
        not wrap in D.

    Raises
    ------
    InputError
        If the block size is not known or the shape is not five sizes.

    Notes
    -----
    Published: links, packets, FIFOs and 40 ns a hop (Chen et al., "The IBM Blue Gene/Q
    interconnection network and message unit", SC'11); block shapes (SciNet BGQ documentation; Jain
    et al., SC'13). The routing order and the zones of adaptive routing depend on the block, as in
    IBM's firmware and messaging library ([BGQ]; see `bluegene_routes`); recorded routes of Mira and
    Vesta (Fujiwara et al., VAST'17 data), from which the tie rule is read, have that order on all
    six blocks. Buffer depths are not public.

    Examples
    --------
    >>> block = bluegene_q(nodes=1024)
    >>> block.shape, block.order
    ((4, 4, 4, 8, 2), (3, 1, 2, 0, 4))
    """
    if shape is not None and nodes is not None:
        raise InputError("both a shape and a number of nodes given", found=(shape, nodes))
    if shape is None:
        nodes = 512 if nodes is None else whole_number(nodes, "number of nodes", 1)
        if nodes not in _BLUEGENE_Q:
            known = ", ".join(map(str, _BLUEGENE_Q))
            raise InputError("unknown block size", found=nodes, expected=f"{known}, or a shape")
        shape = _BLUEGENE_Q[nodes]
    sizes = machine_shape(shape, (5,), "Blue Gene/Q")
    rings = wraps(wrap, 5)
    return Torus(
        sizes,
        wrap=rings,
        bandwidth=(2e9,),
        order=routing_order(sizes, rings),
        name="bluegene_q",
        zones="bluegene_q",
    )


def bluegene_p(shape: Sequence[int] = (8, 8, 8)) -> Torus:
    """Return a Blue Gene/P block: three dimensions, 425 MB/s a link each way.

    A block smaller than a midplane (8x8x8) is a mesh in every dimension shorter than 8.

    Notes
    -----
    Published: 425 MB/s a link each way, packets of 32 to 256 bytes in 32-byte steps (IBM Blue Gene
    team, "Overview of the IBM Blue Gene/P project", IBM J. Res. Dev. 52, 2008), memory bandwidth
    13.6 GB/s. Assumed: 16 bytes of a packet are its header, 64 ns a hop, six injection FIFOs, by
    the first dimension.

    Examples
    --------
    >>> bluegene_p((8, 8, 16)).bandwidth[0]
    425000000.0
    """
    sizes = machine_shape(shape, (3,), "Blue Gene/P")
    network = Network(
        payload=240,
        header=16,
        hop_latency=64e-9,
        fifos=6,
        fifo_rule="first_dimension",
        memory_bandwidth=13.6e9,
    )
    wrap = tuple(size >= 8 for size in sizes)
    return Torus(sizes, wrap=wrap, bandwidth=(425e6,), network=network, name="bluegene_p")


def gemini(shape: Sequence[int] = (8, 8, 8)) -> Torus:
    """Return a Cray XE6/XK7 torus: a node of the model is a Gemini router with its two hosts.

    ``tasks_per_node`` therefore counts the tasks of both hosts, and traffic between them is taken
    to stay inside the router.

    Notes
    -----
    Published: a 3-D torus of routers, two hosts each, with links that differ by dimension
    (Alverson, Roweth and Kaplan, "The Gemini system interconnect", HOTI 2010). The bandwidths X
    5.7, Y 2.85 and Z 9.1 GB/s are what one contention pattern over four Geminis in a line attained
    on Blue Waters (Bienz, BlueWatersModel data, 2018), not the wire's rate. Within a blade links
    are faster than between blades; the model takes all links of a dimension as equal. Assumed: X,
    Y, Z routing order, 64-byte packets with 16 bytes of header, 105 ns a hop, one injection FIFO.

    Examples
    --------
    >>> gemini((4, 1, 1)).bandwidth
    (5700000000.0, 2850000000.0, 9100000000.0)
    """
    sizes = machine_shape(shape, (3,), "Gemini")
    network = Network(payload=64, header=16, hop_latency=105e-9, fifos=1, fifo_rule="round_robin")
    return Torus(sizes, bandwidth=(5.7e9, 2.85e9, 9.1e9), network=network, name="gemini")


def tofu_d(shape: Sequence[int] = (4, 4, 4), *, wrap: bool | Sequence[bool] = True) -> Torus:
    """Return a Tofu-D network: 6-D (X Y Z a b c) or the 1- to 3-D torus that users are offered.

    Parameters
    ----------
    shape : sequence of int
        One to three sizes of the logical torus, or six that end in 2, 3, 2.
    wrap : bool or sequence of bool
        Which of the given dimensions, or of X Y Z, close; a (2) and c (2) are meshes and b (3) a
        ring in any case. What an allocation wraps depends on its shape.

    Notes
    -----
    Published: 6.8 GB/s a link each way, six network interfaces a node, ten ports (Ajima et al.,
    "The Tofu interconnect D", CLUSTER 2018); HBM2 1,024 GB/s a node (A64FX). Assumed: packets of
    1,920 bytes payload with 32 of header, 100 ns a hop, X to c routing order, FIFOs taken in turn.

    Examples
    --------
    >>> tofu_d((2, 2, 2, 2, 3, 2)).wrap
    (True, True, True, False, True, False)
    """
    sizes = machine_shape(shape, (1, 2, 3, 6), "Tofu-D")
    outer = min(len(sizes), 3)
    closed = wraps(wrap, outer)
    if len(sizes) == 6:
        if sizes[3:] != (2, 3, 2):
            raise InputError("bad Tofu-D shape", found=sizes, expected="six sizes end in 2, 3, 2")
        closed += (False, True, False)
    network = Network(
        payload=1920,
        header=32,
        hop_latency=100e-9,
        fifos=6,
        fifo_rule="round_robin",
        memory_bandwidth=1024e9,
    )
    axes = "XYZabc" if len(sizes) == 6 else ""
    return Torus(sizes, wrap=closed, bandwidth=(6.8e9,), network=network, name="tofu_d", axes=axes)


_PRESETS: dict[str, Callable[..., Torus]] = {
    preset.__name__: preset
    for preset in (bluegene_p, bluegene_q, gemini, tofu_d, tpu_v4, tpu_v5p, trainium2)
}


def names() -> tuple[str, ...]:
    """Return the names of the presets.

    Examples
    --------
    >>> "bluegene_q" in names()
    True
    """
    return tuple(_PRESETS)


def get(text: str) -> Torus:
    """Return a preset by its short form: ``name``, ``name:shape`` or ``bluegene_q:nodes``.

    An ``m`` after a size of Blue Gene/Q or Tofu-D makes that dimension a mesh; other machines
    decide that by the shape. The text that a preset is printed as, ``name shape``, is read too.

    Raises
    ------
    InputError
        If the preset is not known or does not take that shape.

    Examples
    --------
    >>> get("bluegene_q:1024") == get("bluegene_q:4x4x4x8x2")
    True
    >>> str(get("tpu_v4:2x2x4"))
    'tpu_v4 2mx2mx4m'
    >>> get("tpu_v4 2mx2mx4m") == get("tpu_v4:2x2x4")
    True
    """
    name, separator, rest = _split(text)
    preset = _PRESETS.get(name.lower().replace("-", "_"))
    if preset is None:
        raise InputError("unknown machine", found=name, expected=" or ".join(_PRESETS))
    if not separator:
        return preset()
    form = str(preset()).replace(" ", ":")
    if not rest:
        expected = f"{preset.__name__} alone, or with sizes as in {form}"
        raise InputError("machine without its sizes", found=text, expected=expected)
    sizes = read_sizes(rest)
    if preset is bluegene_q and sizes is not None and len(sizes) == 1:
        return bluegene_q(nodes=sizes[0])
    given = parse_sizes(rest)
    if preset is bluegene_q and len(given.shape) == 1:
        expected = "five sizes, an m after those of a mesh, or a number of nodes alone"
        raise InputError("bad Blue Gene/Q shape", found=rest, expected=expected)
    try:
        made = preset(given.shape)
        if preset is bluegene_q:
            made = preset(given.shape, wrap=given.wrap)
        elif preset is tofu_d and not all(given.wrap):
            made = tofu_d(given.shape, wrap=given.wrap[:3])
    except InputError as error:
        found = rest if isinstance(error.found, tuple) else error.found
        raise InputError(error.message, found=found, expected=error.expected) from None
    if all(given.wrap):
        return made
    if made.wrap != given.wrap:
        expected = str(made).replace(" ", ":")
        raise InputError(
            "machine decides itself which dimensions wrap", found=text, expected=expected
        )
    return made


def parse_torus(text: str) -> Torus:
    """Read a torus from ``8x8x8``, ``8x8x8m`` (a mesh in the last dimension) or a machine.

    A machine is a preset's short form, as in `get`. The text of any of these tori, ``str(torus)``,
    reads back as the same torus.

    Raises
    ------
    InputError
        If it is no text, or neither of these.

    Examples
    --------
    >>> parse_torus("4x4x8m").wrap, parse_torus("tpu_v4:4x4x8").n_nodes
    ((True, True, False), 128)
    """
    machine = isinstance(text, str) and text.strip()[:1].isalpha()
    return get(text) if machine and set(text.lower()) - SIZES else parse_sizes(text)


def _split(text: str) -> tuple[str, str, str]:
    """Name of a machine, what separates it from its sizes, and these."""
    if not isinstance(text, str):
        raise InputError("bad machine", found=repr(text), expected="a text such as tpu_v4:4x4x8")
    separator = ":" if ":" in text else " "
    name, found, rest = text.strip().partition(separator)
    return name.strip(), found, rest.strip()
