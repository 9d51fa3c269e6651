"""Butterflies along the dimensions of a torus, on several ports, and trees made of them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import butterflies, trees
from .folding import fold, unfold
from .partners import Family
from .schedule import Build, Schedule


def entries(label: str, family: Family) -> dict[str, Build]:
    """Return the algorithms of a family by name, ``label`` in each."""
    found: dict[str, Build] = {}
    own: dict[str, Callable[..., Schedule]] = {
        "allgather": functools.partial(butterflies.allgather, far_first=True),
        "reduce_scatter": butterflies.reduce_scatter,
        "allreduce": butterflies.allreduce,
    }
    for kind, build in own.items():
        name = f"{kind}/{label}"
        found[name] = functools.partial(_butterfly, build, name, family)
    sends_blocks = functools.partial(butterflies.allgather, far_first=True, by_block=True)
    sorts_first = functools.partial(butterflies.allgather, far_first=True, sorted_first=True)
    for suffix, build in (("blocks", sends_blocks), ("sorted", sorts_first)):
        name = f"allgather/{label}_{suffix}"
        found[name] = functools.partial(_butterfly, build, name, family)
    name = f"allreduce/{label}_rabenseifner"
    found[name] = functools.partial(_butterfly, butterflies.rabenseifner, name, family)
    for kind in ("bcast", "reduce", "scatter", "scatter_near", "gather", "gather_near"):
        collective, _, near = kind.partition("_")
        name = f"{collective}/{label}" + (f"_{near}" if near else "")
        found[name] = functools.partial(_tree, name, family)
    for name in (f"bcast/{label}_scatter_allgather", f"reduce/{label}_reduce_scatter_gather"):
        found[name] = functools.partial(_two_parts, name, family)
    return found


def _butterfly(
    build: Callable[..., Schedule],
    name: str,
    family: Family,
    n: int,
    nbytes: float,
    shape: tuple[int, ...],
    ports: int,
    segment: float,
) -> Schedule:
    return build(n, nbytes, shape, family=family, ports=ports, name=name)


def _tree(
    name: str,
    family: Family,
    n: int,
    nbytes: float,
    shape: tuple[int, ...],
    ports: int,
    segment: float,
) -> Schedule:
    kind = name.split("/")[0]
    if kind == "bcast":
        return trees.butterfly_broadcast(
            name, nbytes, shape, family=family, ports=ports, segment=segment
        )
    if kind == "reduce":
        return trees.butterfly_reduce(
            name, nbytes, shape, family=family, ports=ports, segment=segment
        )
    near = name.endswith("_near")
    # A gather that starts with the near partners is a scatter backwards that ends with them.
    down = trees.butterfly_scatter(
        name,
        nbytes,
        shape,
        family=family,
        ports=ports,
        far_first=near if kind == "gather" else not near,
    )
    return down if kind == "scatter" else trees.upwards(name, down)


def _two_parts(
    name: str,
    family: Family,
    n: int,
    nbytes: float,
    shape: tuple[int, ...],
    ports: int,
    segment: float,
) -> Schedule:
    """Scatter and allgather as a broadcast; reduce-scatter and gather as a reduce."""
    folding = fold(shape)
    sizes = folding.sizes
    first, second = butterflies.halves(nbytes, sizes, family=family, ports=ports)
    down = trees.butterfly_scatter(name, nbytes, sizes, family=family, ports=ports, far_first=False)
    is_bcast = name.startswith("bcast")
    parts = (down.lanes, second) if is_bcast else (first, trees.upwards(name, down).lanes)
    lanes = tuple(a + b for a, b in zip(*parts, strict=True))
    inner = Schedule(name, 0, nbytes, lanes)
    return unfold(folding, inner, n, before=not is_bcast, after=is_bcast)
