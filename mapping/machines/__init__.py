"""Machines with a torus network: a TOML file each, with the source of every number.

`Machine.from_name` finds one. A machine is called with sizes:
``machines.tpu_v4((4, 4, 8))``. A file holds the keys of the torus and rules about its shapes.
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

from ..network import Network, routing_order
from ..torus import Torus, wraps
from ..twist import CAN_BE_TWISTED, named_twist, split_twist, usual_twist

SOURCE_KINDS = ("published", "measured", "assumed", "differs")

Sizes = tuple[int, ...]
TorusLike = Torus | str | Sequence[int]
OF_NETWORK = tuple(item.name for item in fields(Network))
OF_TORUS = tuple(item.name for item in fields(Torus) if item.name not in ("network", "exclusions"))
WORDS = ("title", "about", "called", "sources")

__all__ = ["Citation", "Machine", "Shapes", "names", "torus_from_text"]


@dataclass(frozen=True)
class Citation:
    """Where numbers of a machine come from.

    ``how`` is "assumed" where a number is not public, "differs" for a source that disagrees.
    """

    of: tuple[str, ...]  # keys of the machine file
    how: str  # one of `SOURCE_KINDS`
    says: str  # the number as the source has it, and how it was measured
    source: str = ""  # the publication
    date: str = ""  # when it was published or read

    def __str__(self) -> str:
        origin = ", ".join(part for part in (self.source, self.date) if part)
        return f"{self.how.capitalize()}: {self.says}" + (f" ({origin})." if origin else ".")


@dataclass(frozen=True)
class Shapes:
    """The rules by which a machine makes a torus of the given sizes.

    A field that is 0 or empty sets no rule.
    """

    dimensions: tuple[int, ...] = ()  # how many sizes may be given
    only: tuple[Sizes, ...] = ()  # the shapes that there are, sizes rising
    largest: int = 0  # most nodes along a dimension, before `inner`
    nodes: int = 0  # most nodes in all, before `inner`
    ring_from: int = 0  # a dimension closes if it has so many nodes or more
    rings_if_multiples_of: int = 0  # all dimensions close if all sizes are multiples, else none
    # Dimensions inside a chip or a unit of nodes, behind those that are given; their bandwidth is
    # that of the first dimension if it is not given.
    inner: Sizes = ()
    inner_wrap: tuple[bool, ...] = ()
    inner_bandwidth: tuple[float, ...] = ()
    inner_axes: str = ""
    inner_behind: tuple[int, ...] = ()  # after how many given sizes `inner` is typed, or always
    blocks: dict[int, Sizes] = field(default_factory=dict)  # shapes by their number of nodes
    own: Sizes = ()  # a dimension longer than here has links of `beyond` bytes per second
    beyond: float = 0.0
    routing_order: str = ""  # the rule for the routing order, "bluegene_q"
    twisted: bool = False  # whether slices are twisted tori where they can be
    queue_a_port: bool = False  # whether a node has an injection queue for each of its ports
    devices: tuple[int, ...] = ()  # how many a chip may be used as, the usual number first

    def __post_init__(self) -> None:
        one_of(self.routing_order, "rule for the routing order", ("", "bluegene_q"))
        for name in ("largest", "nodes", "ring_from", "rings_if_multiples_of"):
            whole_number(getattr(self, name), f"{name} of [shapes]", 0)

    @property
    def decide(self) -> bool:
        """Whether the sizes decide what closes, not the site or the job."""
        return bool(self.ring_from or self.rings_if_multiples_of)


@dataclass(frozen=True)
class Machine:
    """A machine by its file; called with sizes, it makes a torus.

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
    called: str  # in messages
    sources: tuple[Citation, ...]
    shapes: Shapes
    content: dict[str, Any]  # keys of `Torus`; `shape` is the usual one
    network: dict[str, Any]  # keys of `Network`

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Return a machine by its name.

        Examples
        --------
        >>> Machine.from_name("Fugaku").name
        'tofu_d'
        """
        key = name.lower().replace("-", "_")
        key = _ALSO.get(key, key)
        if key in _SWITCHED:
            raise InputError("no torus", found=name, expected=_SWITCHED[key])
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
        """Return the torus of a part of the machine; of its usual shape if none is given.

        ``nodes`` replaces the shape on machines with blocks. ``wrap`` gives the dimensions that
        close, where the sizes do not decide it. ``twisted`` chooses between a twisted and a plain
        torus where a slice can be either; twisted if not given.
        """
        if shape is not None and nodes is not None:
            raise InputError("both a shape and a number of nodes given", found=(shape, nodes))
        if nodes is not None:
            shape = self._block_shape(nodes)
        outer, inner = self.split_sizes(self.content["shape"] if shape is None else shape)
        self._check_sizes(outer)
        rules, sizes = self.shapes, (*outer, *inner)
        rings = self._closed_dimensions(outer, wrap)
        if inner:
            rings += wraps(rules.inner_wrap or True, len(inner))
        content = {key: value for key, value in self.content.items() if key != "twisted"}
        content |= {"shape": sizes, "wrap": rings, "name": content.get("name", self.name)}
        if "bandwidth" in content or inner:
            content["bandwidth"] = self._bandwidths(outer, inner)
        if inner and rules.inner_axes:
            content["axes"] = "XYZABC"[: len(outer)] + rules.inner_axes
        if rules.routing_order:
            content["routing_order"] = routing_order(sizes, rings)
        if rules.twisted or twisted is not None:
            content["twist"] = self._twist_of(sizes, rings, twisted)
        changes = dict(self.network)
        if rules.queue_a_port:
            changes["fifos"] = 2 * len(sizes)
        return Torus(**content, network=Network(**changes))

    def split_sizes(self, shape: object) -> tuple[Sizes, Sizes]:
        """Return the given sizes and the inner ones, which may be typed behind them."""
        rules, sizes = self.shapes, whole_sizes(shape, "torus shape")
        known, inner = rules.dimensions, rules.inner
        if not known or len(sizes) in known:
            return sizes, () if rules.inner_behind else inner
        n_outer = len(sizes) - len(inner)
        if inner and sizes[n_outer:] == inner and n_outer in (rules.inner_behind or known):
            return sizes[:n_outer], inner
        raise InputError(f"bad {self.called} shape", found=sizes, expected=self._known_sizes())

    def _block_shape(self, nodes: object) -> Sizes:
        blocks = self.shapes.blocks
        number = whole_number(nodes, "number of nodes", 1)
        if number not in blocks:
            known = ", ".join(map(str, blocks)) + ", or a shape" if blocks else "a shape"
            raise InputError("unknown block size", found=number, expected=known)
        return blocks[number]

    def _known_sizes(self) -> str:
        rules = self.shapes
        text = " or ".join(map(str, rules.dimensions)) + " sizes"
        if not rules.inner:
            return text
        behind = f", or {rules.inner_behind[0]} of them" if rules.inner_behind else ", or these"
        return f"{text}{behind} and {'x'.join(map(str, rules.inner))}"

    def _check_sizes(self, sizes: Sizes) -> None:
        rules = self.shapes
        if rules.only and tuple(sorted(sizes)) not in rules.only:
            expected = " or ".join("x".join(map(str, each)) for each in rules.only)
            raise InputError(f"bad {self.called} shape", found=sizes, expected=expected)
        if rules.largest and max(sizes) > rules.largest:
            expected = f"at most {rules.largest} along a dimension"
            raise InputError(f"{self.called} too large", found=sizes, expected=expected)
        if rules.nodes and math.prod(sizes) > rules.nodes:
            expected = f"at most {rules.nodes:,} in all"
            raise InputError(f"{self.called} too large", found=sizes, expected=expected)

    def _closed_dimensions(
        self, sizes: Sizes, wrap: bool | Sequence[bool] | None
    ) -> tuple[bool, ...]:
        rules = self.shapes
        if not rules.decide:
            usual = self.content.get("wrap", True)
            return wraps(usual if wrap is None else wrap, len(sizes))
        if rules.ring_from:
            rings = tuple(size >= rules.ring_from for size in sizes)
        else:
            all_of_them = all(size % rules.rings_if_multiples_of == 0 for size in sizes)
            rings = (all_of_them,) * len(sizes)
        if wrap is not None and wraps(wrap, len(sizes)) != rings:
            fault = "machine decides itself which dimensions wrap"
            raise InputError(fault, found=wrap, expected="no wrap")
        return rings

    def _bandwidths(self, outer: Sizes, inner: Sizes) -> tuple[float, ...]:
        rules, given = self.shapes, self.content.get("bandwidth", 2e9)
        rates = list(given) if isinstance(given, list | tuple) else [given] * len(outer)
        if len(rates) == 1:
            rates = rates * len(outer)
        rates = rates[: len(outer)] if rules.inner or len(rules.dimensions) > 1 else rates
        for d, own in enumerate(rules.own):
            rates[d] = rules.beyond if outer[d] > own else rates[d]
        return (*rates, *(rules.inner_bandwidth or (rates[0],) * len(inner))[: len(inner)])

    def _twist_of(
        self, sizes: Sizes, rings: tuple[bool, ...], twisted: bool | None
    ) -> tuple[tuple[int, ...], ...]:
        usual = usual_twist(sizes) if all(rings) else ()
        if twisted and not usual:
            expected = CAN_BE_TWISTED
            if self.shapes.rings_if_multiples_of:
                expected += f", multiples of {self.shapes.rings_if_multiples_of}"
            raise InputError(f"{self.called} that is not twisted", found=sizes, expected=expected)
        return () if twisted is False else usual


def read_machine(content: dict[str, Any], name: str) -> Machine:
    """Return the machine that the keys of a file describe.

    The keys are the parameters of `Torus`, those of `Network` in a table ``network``, and the rules
    of `Shapes` in a table ``shapes``. ``title``, ``about``, ``called`` and the tables ``sources``
    are words about it.
    """
    content = dict(content)
    words = {key: content.pop(key) for key in WORDS if key in content}
    rules, network = take_table(content, "shapes"), take_table(content, "network")
    check_keys(network, OF_NETWORK, "key of [network]")
    check_keys(rules, tuple(item.name for item in fields(Shapes)), "key of [shapes]")
    check_keys(content, OF_TORUS, "key of a torus")
    if "shape" not in content:
        raise InputError("no shape", expected="shape = [8, 8, 8], or machine = a machine's name")
    blocks = rules.pop("blocks", {})
    plain = {key: _as_tuples(value) for key, value in rules.items()}
    shapes = Shapes(**plain, blocks={int(key): tuple(value) for key, value in blocks.items()})
    return Machine(
        name=name,
        title=" ".join(str(words.get("title", name)).split()),
        about=" ".join(str(words.get("about", "")).split()),
        called=str(words.get("called", name)),
        sources=tuple(map(_read_source, words.get("sources", ()))),
        shapes=shapes,
        content=content,
        network=network,
    )


def _read_source(row: object) -> Citation:
    if not isinstance(row, dict):
        raise InputError("bad sources", found=row, expected="tables [[sources]]")
    check_keys(row, tuple(item.name for item in fields(Citation)), "key of [[sources]]")
    of, how = row.get("of", ()), row.get("how", "measured")
    one_of(how, "how of [[sources]]", SOURCE_KINDS)
    says, source, date = (str(row.get(key, "")) for key in ("says", "source", "date"))
    keys = (of,) if isinstance(of, str) else tuple(map(str, of))
    return Citation(keys, how, " ".join(says.split()), source, date)


def take_table(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Take a table out of the keys."""
    table = content.pop(name, {})
    if not isinstance(table, dict):
        raise InputError(f"bad {name}", found=table, expected=f"a table [{name}]")
    return dict(table)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def check_keys(content: dict[str, Any], known: Sequence[str], what: str) -> None:
    """Raise `InputError` if a key is not known."""
    for key in content:
        if key not in known:
            raise InputError(f"unknown {what}", found=key, expected=" or ".join(known))


_FOLDER = Path(__file__).parent
# Characters of sizes, even if they are mistyped.
SIZE_LETTERS = frozenset("0123456789xm ")
# Other names of machines.
_ALSO = {"fugaku": "tofu_d"}
# Machines that people ask for and that have no torus.
_SWITCHED = {
    "trainium3": "trainium1 or trainium2; chips of Trainium3 are joined by switches, so that no "
    "layout is shorter than another"
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
    return read_machine(parse_toml(path.read_bytes(), path), name)


def _machine_torus(text: str) -> Torus:
    name = re.split(r"[\s:]", text.strip(), maxsplit=1)[0]
    behind = text.strip()[len(name) :].strip()
    machine = Machine.from_name(name)
    if not behind:
        return machine()
    rest = behind.removeprefix(":").strip()
    if not rest:
        form = str(machine()).replace(" ", ":")
        expected = f"{machine.name} alone, or with sizes as in {form}"
        raise InputError("machine without its sizes", found=text, expected=expected)
    blocks = machine.shapes.blocks
    sizes = read_sizes(rest) if blocks else None
    if sizes is not None and len(sizes) == 1:
        return machine(nodes=sizes[0])
    sizes_alone, twisted = split_twist(rest)
    given = parse_sizes(sizes_alone)
    if blocks and len(given.shape) == 1:
        expected = "five sizes, an m after those of a mesh, or a number of nodes alone"
        raise InputError(f"bad {machine.called} shape", found=rest, expected=expected)
    if twisted is not None and not machine.shapes.twisted:
        expected = name + ":" + sizes_alone
        raise InputError("machine that is not twisted", found=text, expected=expected)
    try:
        outer, _ = machine.split_sizes(given.shape)
        # Sizes without an m leave it to the machine what wraps.
        is_free = not (machine.shapes.decide or all(given.wrap))
        wrap = given.wrap[: len(outer)] if is_free else None
        torus = machine(given.shape, wrap=wrap, twisted=twisted)
    except InputError as error:
        found = rest if isinstance(error.found, tuple) else error.found
        raise InputError(error.message, found=found, expected=error.expected) from None
    if not all(given.wrap) and torus.wrap != given.wrap:
        expected = str(torus).replace(" ", ":")
        fault = "machine decides itself which dimensions wrap"
        raise InputError(fault, found=text, expected=expected)
    return torus


def torus_from_text(text: str) -> Torus:
    """Return the torus of sizes such as ``8x8x8m``, or of a machine.

    A machine is ``name``, ``name:shape`` or ``bluegene_q:nodes``. An ``m`` after a size makes that
    dimension a mesh, where sites or jobs decide what wraps (Blue Gene/Q, the Crays, Fujitsu's,
    Galaxy); other machines decide that by the shape. ``:untwisted`` behind the sizes of a slice of
    TPU v4 or v5p makes a plain torus of one that is twisted. ``str(torus)`` is read too.

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
    return _machine_torus(text) if is_machine else parse_sizes(text)


def as_torus(torus: TorusLike) -> Torus:
    """Return a torus as it is, or that of a text or a shape."""
    if isinstance(torus, str):
        return torus_from_text(torus)
    if isinstance(torus, Torus):
        return torus
    if not isinstance(torus, Iterable) or isinstance(torus, bytes | Mapping):
        expected = "a Torus, a shape such as (8, 8, 8), or text such as '8x8x8'"
        raise InputError("bad torus", found=repr(torus), expected=expected)
    return Torus(tuple(torus))


def parse_sizes(text: str) -> Torus:
    """Read a torus from its short form: sizes joined by ``x``; ``m`` after a size makes it a mesh.

    ``:twisted`` behind them makes k x k x 2k or k x 2k x 2k nodes a twisted torus.
    """
    expected = "sizes such as 8x8x8, or 8x8x8m for a mesh"
    plain, is_twisted = split_twist(text)
    parts = plain.lower().split("x")
    sizes = read_sizes("x".join(part.removesuffix("m") for part in parts))
    if sizes is None:
        found = text if text.strip() else "nothing"
        raise InputError("bad torus", found=found, expected=expected)
    wrap = tuple(not part.endswith("m") for part in parts)
    return Torus(sizes, wrap=wrap, twist=named_twist(sizes) if is_twisted else ())


def __getattr__(name: str) -> Machine:
    if name not in names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Machine.from_name(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *names()])
