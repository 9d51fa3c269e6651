"""Machines with a torus network, each a TOML file that cites the sources of its numbers.

`Machine.from_name` returns a machine, and calling a machine with a shape returns a torus:
``machines.tpu_v4((4, 4, 8))``. A file contains the parameters of the torus and rules for shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Self

from toruscast.errors import InputError
from toruscast.files import parse_toml
from toruscast.text import closest
from toruscast.validation import check_type, one_of, read_sizes, whole_number, whole_sizes

from ..network import RULES, Network, routing_order
from ..torus import Torus, expand_wrap
from ..twist import CAN_BE_TWISTED, Twist, default_twist, require_default_twist, split_twist

SOURCE_KINDS = ("published", "measured", "assumed", "differs")

Sizes = tuple[int, ...]
TorusLike = Torus | str | Sequence[int]
NETWORK_KEYS = tuple(item.name for item in fields(Network))
TORUS_KEYS = tuple(
    item.name for item in fields(Torus) if item.name not in ("network", "exclusions")
)
DESCRIPTION_KEYS = ("title", "about", "called", "sources")

__all__ = ["Citation", "Machine", "ShapeRules", "names", "torus_from_text"]


@dataclass(frozen=True)
class Citation:
    """The source of some values in a machine file."""

    of: tuple[str, ...]  # keys of the machine file
    how: str  # one of `SOURCE_KINDS`; "assumed" if not public, "differs" if the source disagrees
    says: str  # the number in the source, and the method of measurement
    source: str = ""  # the publication
    date: str = ""  # date of publication or access

    def __str__(self) -> str:
        origin = ", ".join(part for part in (self.source, self.date) if part)
        return f"{self.how.capitalize()}: {self.says}" + (f" ({origin})." if origin else ".")


@dataclass(frozen=True)
class ShapeRules:
    """Rules for the shapes of a machine; a field that is 0 or empty sets no rule."""

    dimensions: tuple[int, ...] = ()  # valid numbers of sizes
    only: tuple[Sizes, ...] = ()  # valid shapes, each with its sizes in ascending order
    largest: int = 0  # maximum nodes along a dimension, without `inner`
    nodes: int = 0  # maximum number of nodes, without `inner`
    ring_from: int = 0  # minimum nodes of a dimension that is a ring
    rings_if_multiples_of: int = 0  # all dimensions are rings if all sizes are multiples, else none
    # Dimensions inside a chip or a unit of nodes, which follow the given dimensions. By default,
    # they have the bandwidth of the first dimension.
    inner: Sizes = ()
    inner_wrap: tuple[bool, ...] = ()
    inner_bandwidth: tuple[float, ...] = ()
    inner_axes: str = ""
    inner_behind: tuple[int, ...] = ()  # valid numbers of outer sizes before the sizes `inner`
    blocks: dict[int, Sizes] = field(default_factory=dict)  # shapes by their number of nodes
    own: Sizes = ()  # dimensions longer than this have links of `beyond` bytes per second
    beyond: float = 0.0
    routing_order: str = ""  # the rule for the routing order, "bluegene_q"
    twisted: bool = False  # whether slices are twisted if their shape allows it
    queue_a_port: bool = False  # whether a node has an injection queue for each of its ports
    devices: tuple[int, ...] = ()  # valid numbers of devices per chip, the default first

    def __post_init__(self) -> None:
        one_of(self.routing_order, "rule for the routing order", ("", "bluegene_q"))
        for name in ("largest", "nodes", "ring_from", "rings_if_multiples_of"):
            whole_number(getattr(self, name), f"{name} of [shapes]", 0)

    @property
    def decide_wrap(self) -> bool:
        """Whether the sizes, not the site or the job, determine which dimensions are rings."""
        return bool(self.ring_from or self.rings_if_multiples_of)


@dataclass(frozen=True)
class Machine:
    """A machine, as described by its file; calling it with a shape returns a torus.

    Examples
    --------
    >>> from toruscast.mapping import machines
    >>> machines.tpu_v6e.about
    'An axis wraps if it has 16 chips.'
    >>> str(machines.tpu_v6e((8, 16))), str(machines.gemini(wrap=(True, False, True)))
    ('tpu_v6e 8mx16', 'gemini 8x8mx8')
    """

    name: str
    title: str
    about: str
    called: str  # name in messages
    sources: tuple[Citation, ...]
    shapes: ShapeRules
    content: dict[str, Any]  # parameters of `Torus`, with the default `shape`
    network: dict[str, Any]  # parameters of `Network`

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Return a machine by its name.

        Examples
        --------
        >>> Machine.from_name("Fugaku").name
        'tofu_d'
        """
        key = name.lower().replace("-", "_")
        key = _ALIASES.get(key, key)
        if key in _SWITCHED_MACHINES:
            raise InputError("no torus", found=name, expected=_SWITCHED_MACHINES[key])
        if key not in names():
            raise InputError("unknown machine", found=name, expected=closest(name, names()))
        return _read_packaged(key)  # type: ignore[return-value]

    def __call__(
        self,
        shape: Sequence[int] | None = None,
        *,
        nodes: int | None = None,
        wrap: bool | Sequence[bool] | None = None,
        twisted: bool | None = None,
    ) -> Torus:
        """Return the torus of a partition of the machine; the default shape is the usual one.

        On machines with blocks, ``nodes`` can replace the shape. ``wrap`` selects which dimensions
        are rings, unless the sizes determine them. If a slice can be a twisted or an ordinary
        torus, ``twisted`` selects one of them, by default the twisted torus.
        """
        if shape is not None and nodes is not None:
            raise InputError("both a shape and a number of nodes given", found=(shape, nodes))
        if nodes is not None:
            shape = self._find_block(nodes)
        outer, inner = self.split_sizes(self.content["shape"] if shape is None else shape)
        self._check_sizes(outer)
        rules, sizes = self.shapes, (*outer, *inner)
        rings = self._find_rings(outer, wrap)
        if inner:
            rings += expand_wrap(rules.inner_wrap or True, len(inner))
        content = {key: value for key, value in self.content.items() if key != "twisted"}
        content |= {"shape": sizes, "wrap": rings, "name": content.get("name", self.name)}
        if "bandwidth" in content or inner:
            content["bandwidth"] = self._list_bandwidths(outer, inner)
        if inner and rules.inner_axes:
            content["axes"] = "XYZABC"[: len(outer)] + rules.inner_axes
        if rules.routing_order:
            content["routing_order"] = routing_order(sizes, rings)
        if rules.twisted or twisted is not None:
            content["twist"] = self._select_twist(sizes, rings, twisted)
        changes = dict(self.network)
        if rules.queue_a_port:
            changes["fifos"] = 2 * len(sizes)
        return Torus(**content, network=Network(**changes))

    def split_sizes(self, shape: object) -> tuple[Sizes, Sizes]:
        """Split a shape, which may include the inner sizes, into outer and inner sizes."""
        rules, sizes = self.shapes, whole_sizes(shape, "torus shape")
        lengths, inner = rules.dimensions, rules.inner
        if not lengths or len(sizes) in lengths:
            return sizes, () if rules.inner_behind else inner
        n_outer = len(sizes) - len(inner)
        if inner and sizes[n_outer:] == inner and n_outer in (rules.inner_behind or lengths):
            return sizes[:n_outer], inner
        raise InputError(f"bad {self.called} shape", found=sizes, expected=self._describe_sizes())

    def _find_block(self, nodes: object) -> Sizes:
        """Return the shape of the block with this number of nodes."""
        blocks = self.shapes.blocks
        number = whole_number(nodes, "number of nodes", 1)
        if number not in blocks:
            known = ", ".join(map(str, blocks)) + ", or a shape" if blocks else "a shape"
            raise InputError("unknown block size", found=number, expected=known)
        return blocks[number]

    def _describe_sizes(self) -> str:
        """Describe how many sizes a shape may have, for error messages."""
        rules = self.shapes
        text = " or ".join(map(str, rules.dimensions)) + " sizes"
        if not rules.inner:
            return text
        outer = f"{rules.inner_behind[0]} sizes" if rules.inner_behind else "these"
        return f"{text}, or {outer} and {'x'.join(map(str, rules.inner))}"

    def _check_sizes(self, sizes: Sizes) -> None:
        """Raise `InputError` if the outer sizes violate the machine's rules."""
        rules = self.shapes
        if rules.only and tuple(sorted(sizes)) not in rules.only:
            expected = " or ".join("x".join(map(str, shape)) for shape in rules.only)
            raise InputError(f"bad {self.called} shape", found=sizes, expected=expected)
        if rules.largest and max(sizes) > rules.largest:
            expected = f"at most {rules.largest} along a dimension"
            raise InputError(f"{self.called} too large", found=sizes, expected=expected)
        if rules.nodes and math.prod(sizes) > rules.nodes:
            expected = f"at most {rules.nodes:,} nodes"
            raise InputError(f"{self.called} too large", found=sizes, expected=expected)

    def _find_rings(self, sizes: Sizes, wrap: bool | Sequence[bool] | None) -> tuple[bool, ...]:
        """Return whether each outer dimension is a ring, by the machine's rules or by ``wrap``."""
        rules = self.shapes
        if not rules.decide_wrap:
            default = self.content.get("wrap", True)
            return expand_wrap(default if wrap is None else wrap, len(sizes))
        if rules.ring_from:
            rings = tuple(size >= rules.ring_from for size in sizes)
        else:
            are_multiples = all(size % rules.rings_if_multiples_of == 0 for size in sizes)
            rings = (are_multiples,) * len(sizes)
        if wrap is not None and expand_wrap(wrap, len(sizes)) != rings:
            raise InputError(_FIXED_WRAP, found=wrap, expected="no wrap")
        return rings

    def _list_bandwidths(self, outer: Sizes, inner: Sizes) -> tuple[float, ...]:
        """Return the bandwidth (bytes/s) of a link in each outer and inner dimension."""
        rules, bandwidth = self.shapes, self.content.get("bandwidth", 2e9)
        rates = list(bandwidth) if isinstance(bandwidth, list | tuple) else [bandwidth]
        if len(rates) == 1:
            rates = rates * len(outer)
        rates = rates[: len(outer)] if rules.inner or len(rules.dimensions) > 1 else rates
        for d, max_size in enumerate(rules.own):
            rates[d] = rules.beyond if outer[d] > max_size else rates[d]
        inner_rates = rules.inner_bandwidth or (rates[0],) * len(inner)
        return (*rates, *inner_rates[: len(inner)])

    def _select_twist(self, sizes: Sizes, rings: tuple[bool, ...], twisted: bool | None) -> Twist:
        """Return the sizes' default twist, or none if twisting is impossible or not wanted."""
        default = default_twist(sizes) if all(rings) else ()
        if twisted and not default:
            expected = CAN_BE_TWISTED
            if self.shapes.rings_if_multiples_of:
                expected += f", multiples of {self.shapes.rings_if_multiples_of}"
            raise InputError(f"{self.called} cannot be twisted", found=sizes, expected=expected)
        return () if twisted is False else default


def read_machine(content: dict[str, Any], name: str) -> Machine:
    """Return the machine described by the content of a file.

    The keys are the parameters of `Torus`. A table ``network`` has the parameters of `Network`, and
    a table ``shapes`` has the parameters of `ShapeRules`. ``title``, ``about``, ``called`` and the
    ``[[sources]]`` tables describe the machine.
    """
    content = dict(content)
    texts = {key: content.pop(key) for key in DESCRIPTION_KEYS if key in content}
    rules, network = pop_table(content, "shapes"), pop_table(content, "network")
    check_keys(network, NETWORK_KEYS, "key of [network]")
    check_keys(rules, tuple(item.name for item in fields(ShapeRules)), "key of [shapes]")
    check_keys(content, TORUS_KEYS, "key of a torus")
    unknown = [rule for rule in RULES if rule not in {*network, *content}]
    network.setdefault("unknown_rules", unknown)
    if "shape" not in content:
        raise InputError("no shape", expected="shape = [8, 8, 8], or machine = a machine's name")
    rules["blocks"] = {int(nodes): shape for nodes, shape in rules.get("blocks", {}).items()}
    return Machine(
        name=name,
        title=" ".join(str(texts.get("title", name)).split()),
        about=" ".join(str(texts.get("about", "")).split()),
        called=str(texts.get("called", name)),
        sources=tuple(map(_read_source, texts.get("sources", ()))),
        shapes=ShapeRules(**_as_tuples(rules)),
        content=content,
        network=network,
    )


def _read_source(row: object) -> Citation:
    """Return the citation in a table ``[[sources]]`` of a machine file."""
    if not isinstance(row, dict):
        raise InputError("bad sources", found=row, expected="tables [[sources]]")
    check_keys(row, tuple(item.name for item in fields(Citation)), "key of [[sources]]")
    of, how = row.get("of", ()), row.get("how", "measured")
    one_of(how, "how of [[sources]]", SOURCE_KINDS)
    says, source, date = (str(row.get(key, "")) for key in ("says", "source", "date"))
    keys = (of,) if isinstance(of, str) else tuple(map(str, of))
    return Citation(keys, how, " ".join(says.split()), source, date)


def pop_table(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Remove a table from the content and return it; empty if missing."""
    table = content.pop(name, {})
    if not isinstance(table, dict):
        raise InputError(f"bad {name}", found=table, expected=f"a table [{name}]")
    return dict(table)


def _as_tuples(value: Any) -> Any:
    """Convert all lists in a value of a TOML file to tuples."""
    if isinstance(value, dict):
        return {key: _as_tuples(item) for key, item in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def check_keys(content: dict[str, Any], known: Sequence[str], label: str) -> None:
    """Raise `InputError` for an unknown key."""
    for key in content:
        if key not in known:
            raise InputError(f"unknown {label}", found=key, expected=" or ".join(known))


_FOLDER = Path(__file__).parent
# A text of only these characters is a shape (perhaps an invalid one), not a machine name.
SIZE_LETTERS = frozenset("0123456789xm ")
_FIXED_WRAP = "the sizes determine which dimensions of this machine wrap"
_ALIASES = {"fugaku": "tofu_d"}
_SWITCHED_MACHINES = {
    "trainium3": "trainium1 or trainium2; switches connect the chips of Trainium3, so all layouts "
    "have the same distances"
}


@cache
def names() -> tuple[str, ...]:
    """Return the names of the machines.

    Examples
    --------
    >>> "bluegene_q" in names()
    True
    """
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def _read_packaged(name: str) -> Machine:
    path = _FOLDER / f"{name}.toml"
    content = parse_toml(path.read_bytes(), path)
    # A named machine's file states all rules, so none is unknown.
    content.setdefault("network", {})["unknown_rules"] = []
    return read_machine(content, name)


def _parse_machine(text: str) -> Torus:
    """Return the torus of a machine, with optional sizes as in ``tpu_v4:4x4x8:untwisted``."""
    name = re.split(r"[\s:]", text.strip(), maxsplit=1)[0]
    suffix = text.strip()[len(name) :].strip()
    machine = Machine.from_name(name)
    if not suffix:
        return machine()
    sizes_text = suffix.removeprefix(":").strip()
    if not sizes_text:
        example = str(machine()).replace(" ", ":")
        expected = f"{machine.name} alone, or with sizes as in {example}"
        raise InputError("machine without its sizes", found=text, expected=expected)
    blocks = machine.shapes.blocks
    sizes = read_sizes(sizes_text) if blocks else None
    if sizes is not None and len(sizes) == 1:
        return machine(nodes=sizes[0])
    plain, twisted = split_twist(sizes_text)
    requested = parse_sizes(plain)
    if blocks and len(requested.shape) == 1:
        expected = "five sizes (a mesh dimension has an m after its size), or a number of nodes"
        raise InputError(f"bad {machine.called} shape", found=sizes_text, expected=expected)
    if twisted is not None and not machine.shapes.twisted:
        raise InputError("machine that is not twisted", found=text, expected=f"{name}:{plain}")
    try:
        outer, _ = machine.split_sizes(requested.shape)
        # If no size has an m, the text does not specify which dimensions are rings.
        specifies_wrap = not (machine.shapes.decide_wrap or all(requested.wrap))
        wrap = requested.wrap[: len(outer)] if specifies_wrap else None
        torus = machine(requested.shape, wrap=wrap, twisted=twisted)
    except InputError as error:
        found = sizes_text if isinstance(error.found, tuple) else error.found
        raise InputError(error.message, found=found, expected=error.expected) from None
    if not all(requested.wrap) and torus.wrap != requested.wrap:
        raise InputError(_FIXED_WRAP, found=text, expected=str(torus).replace(" ", ":"))
    return torus


def torus_from_text(text: str) -> Torus:
    """Return the torus that a text describes by sizes such as ``8x8x8m``, or by a machine.

    A machine is written ``name``, ``name:shape`` or ``bluegene_q:nodes``. If the site or the job
    configures a machine's rings (Blue Gene/Q, Cray, Fujitsu, Galaxy), an ``m`` after a size makes
    that dimension a mesh. On other machines, the shape determines the rings. For a TPU v4 or v5p
    slice that can be twisted, ``:untwisted`` after the sizes selects an ordinary torus. The text
    ``str(torus)`` is also valid.

    Examples
    --------
    >>> torus_from_text("bluegene_q:1024") == torus_from_text("bluegene_q:4x4x4x8x2")
    True
    >>> str(torus_from_text("tpu_v4:2x2x4"))
    'tpu_v4 2mx2mx4m'
    >>> torus_from_text("tpu_v4:4x4x8").diameter, torus_from_text("tpu_v4:4x4x8:untwisted").diameter
    (6, 8)
    """
    expected = "sizes such as 8x8x8, or 8x8x8m for a mesh"
    check_type(text, "torus", str, f"a text of {expected}")
    is_machine = text.strip()[:1].isalpha() and set(text.lower()) - SIZE_LETTERS
    return _parse_machine(text) if is_machine else parse_sizes(text)


def as_torus(torus: TorusLike) -> Torus:
    """Return the torus given as a `Torus`, text or shape."""
    if isinstance(torus, str):
        return torus_from_text(torus)
    if isinstance(torus, Torus):
        return torus
    if not isinstance(torus, Iterable) or isinstance(torus, bytes | Mapping):
        expected = "a Torus, a shape such as (8, 8, 8), or text such as '8x8x8'"
        raise InputError("bad torus", found=repr(torus), expected=expected)
    return Torus(tuple(torus))


def parse_sizes(text: str) -> Torus:
    """Return the torus of sizes joined by ``x``; ``m`` after a size makes that dimension a mesh.

    A suffix ``:twisted`` selects the twisted torus of k x k x 2k or k x 2k x 2k nodes.
    """
    expected = "sizes such as 8x8x8, or 8x8x8m for a mesh"
    plain, is_twisted = split_twist(text)
    parts = plain.lower().split("x")
    sizes = read_sizes("x".join(part.removesuffix("m") for part in parts))
    if sizes is None:
        raise InputError("bad torus", found=text if text.strip() else "nothing", expected=expected)
    wrap = tuple(not part.endswith("m") for part in parts)
    return Torus(sizes, wrap=wrap, twist=require_default_twist(sizes) if is_twisted else ())


def __getattr__(name: str) -> Machine:
    if name not in names():
        near = closest(name, names(), "one of machines.names()")
        raise AttributeError(f"no machine {name!r}; did you mean {near}?")
    return Machine.from_name(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *names()])
