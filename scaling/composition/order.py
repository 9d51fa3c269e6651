"""The order of stages once every parameter is large enough."""

# The difference of two models is a sum of products prod_l x_l^i_l log2(x_l)^j_l. One product
# outgrows another if one parameter's (i, j) is greater and none is smaller, powers before
# logarithms. Their ratio then grows without bound.

from __future__ import annotations

from collections.abc import Sequence

from .stage import Stage

_Product = tuple[tuple[str, float, float], ...]


def outgrows(a: Stage, b: Stage) -> bool:
    """Return whether `a` takes longer than `b` once all parameters exceed some size.

    The order of growth decides, then the lead coefficients, then the next terms. With one
    parameter, one of two different models always outgrows the other. With several, neither may, as
    with n^2 and p^2.

    Examples
    --------
    >>> quick = Stage("quick", ("n",), ((1.0, ((1.0, 1.0),)),))
    >>> slow = Stage("slow", ("n",), ((900.0, ((1.0, 0.0),)),))
    >>> outgrows(quick, slow), outgrows(slow, quick)
    (True, False)
    """
    difference = a.exact_terms()
    for product, coefficient in b.exact_terms().items():
        difference[product] = difference.get(product, 0) - coefficient
    positive = [product for product, c in difference.items() if c > 0]
    negative = [product for product, c in difference.items() if c < 0]
    return bool(positive) and all(any(_faster(p, n) for p in positive) for n in negative)


def slowest(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that no others outgrow; one stands for several with the same model.

    With one parameter that is a single stage. With several, a stage is also left out if the others
    together outgrow it, such as n + p beside n^2 and p^2.
    """
    kept: list[Stage] = []
    seen: list[dict[_Product, object]] = []
    for stage in sorted(set(stages), key=lambda stage: stage.order):
        terms: dict[_Product, object] = {p: c for p, c in stage.exact_terms().items() if c}
        if terms in seen or any(outgrows(other, stage) for other in stages):
            continue
        seen.append(terms)
        kept.append(stage)
    rivals = {
        product
        for stage in kept
        if all(c >= 0 for c, _ in stage.terms)
        for product in _growing(stage)
    }
    return tuple(
        stage
        for stage in kept
        if not _growing(stage)
        or not all(any(_faster(rival, own) for rival in rivals) for own in _growing(stage))
    )


def _growing(stage: Stage) -> list[_Product]:
    return [product for product, c in stage.exact_terms().items() if c > 0]


def _faster(a: _Product, b: _Product) -> bool:
    left = {name: (i, j) for name, i, j in a}
    right = {name: (i, j) for name, i, j in b}
    names = left.keys() | right.keys()
    pairs = [(left.get(name, (0.0, 0.0)), right.get(name, (0.0, 0.0))) for name in names]
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)
