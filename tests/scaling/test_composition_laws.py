"""The three laws, the maxima and the formulas of compositions, against naive evaluation."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.scaling import composed, pipe, replicate, sequential, shared, tpool
from toruscast.scaling.formula import Formula, format_terms
from toruscast.scaling.stages import evaluate_sum, find_crossings

FORMULAS = {
    "nop": "0.00864",
    "inc": "0.02599 n",
    "qsort": "0.03899 n log2(n)",
    "root": "3 + 2 n^(1/2) log2(n)",
    "send": "40 / n + 0.01 n",
    "reduce": "5 + 0.25 p + 0.1 n log2(p)^2",
}
TASKS = {name: sequential(name, formula) for name, formula in FORMULAS.items()}

# A composition as nested tuples, which naive() evaluates straight from the definition.
trees = st.recursive(
    st.sampled_from(sorted(FORMULAS)),
    lambda inner: st.one_of(
        st.tuples(st.just("tpool"), inner, st.integers(1, 6)),
        st.tuples(st.just("pipe"), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
places = st.floats(1.0, 1e6)


def built(tree):
    if isinstance(tree, str):
        return TASKS[tree]
    if tree[0] == "tpool":
        return tpool(built(tree[1]), tree[2])
    return pipe(*map(built, tree[1]))


def naive(tree, n, p):
    if isinstance(tree, str):
        return {
            "nop": 0.00864,
            "inc": 0.02599 * n,
            "qsort": 0.03899 * n * np.log2(n),
            "root": 3 + 2 * np.sqrt(n) * np.log2(n),
            "send": 40 / n + 0.01 * n,
            "reduce": 5 + 0.25 * p + 0.1 * n * np.log2(p) ** 2,
        }[tree]
    if tree[0] == "tpool":
        return naive(tree[1], n, p) / tree[2]
    return max(naive(part, n, p) for part in tree[1])


def place(expression, n, p):
    return {name: x for name, x in {"n": n, "p": p}.items() if name in expression.parameters}


@settings(max_examples=60, deadline=None)
@given(trees, places, places)
def test_prediction_is_the_definition(tree, n, p):
    predicted = built(tree).predict(place(built(tree), n, p))
    assert predicted == pytest.approx(naive(tree, n, p), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(trees, places, places)
def test_normal_form_is_equal_and_predicts_the_same(tree, n, p):
    expression = built(tree)
    normal = expression.simplified()
    assert normal == expression
    assert hash(normal) == hash(expression)
    assert str(normal.simplified()) == str(normal)
    at = place(expression, n, p)
    assert normal.predict(at) == expression.predict(at)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_text_reads_back(tree):
    expression = built(tree)
    again = composed(str(expression), TASKS)
    assert str(again) == str(expression)
    assert again == expression


@settings(max_examples=60, deadline=None)
@given(trees, trees, trees, st.integers(1, 9), st.integers(1, 9))
def test_laws(first, second, third, m, k):
    a, b, c = map(built, (first, second, third))
    assert pipe(pipe(a, b), c) == pipe(a, pipe(b, c)) == pipe(a, b, c)
    assert tpool(tpool(a, m), k) == tpool(a, m * k)
    assert pipe(a, b) == pipe(b, a)
    assert tpool(tpool(a, m), k) == tpool(tpool(a, k), m)
    assert tpool(pipe(a, b), m) == pipe(tpool(a, m), tpool(b, m))
    assert tpool(a, 1) == a == pipe(a)


@settings(max_examples=60, deadline=None)
@given(trees, st.integers(2, 9))
def test_what_no_law_joins_differs(tree, m):
    a = built(tree)
    assert tpool(a, m) != a
    assert pipe(a, a) != a
    assert pipe(a, sequential("other", "n")) != a
    assert a != str(a)


def test_same_name_with_another_model_is_another_task():
    assert sequential("inc", "n") != sequential("inc", "2 n")
    assert sequential("inc", "n + n") == sequential("inc", "2 n")
    assert sequential("inc", "n + 0 p") == sequential("inc", "n")


@settings(max_examples=60, deadline=None)
@given(trees)
def test_asymptotic_maximum_holds_far_out(tree):
    """Where all parameters are large, no stage exceeds the slowest ones."""
    assume("reduce" not in str(built(tree)))
    expression = built(tree)
    assert len(expression.slowest()) == 1
    far = place(expression, 1e200, 1.0)
    assert expression.predict(far, "asymptotic") == pytest.approx(expression.predict(far))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
)
def test_asymptotic_order_of_polynomials(a, b):
    """Against the order of the numbers that coefficients make with a digit for each power."""
    formulas = [f"{x[2]} n^2 + {x[1]} n + {x[0]}" for x in (a, b)]
    formulas = [f.replace("+ -", "- ") for f in formulas]
    expression = pipe(sequential("a", formulas[0]), sequential("b", formulas[1]))
    size = [sum(c * 1000**k for k, c in enumerate(x)) for x in (a, b)]
    expected = "b" if size[1] > size[0] else "a"
    assert [stage.name for stage in expression.slowest()] == [expected]


def test_order_of_growth_before_coefficients_before_next_terms():
    slow = sequential("slow", "0.001 n log2(n)")
    assert pipe(slow, sequential("linear", "900 n")).slowest()[0].name == "slow"
    assert pipe(slow, sequential("more", "0.002 n log2(n)")).slowest()[0].name == "more"
    assert pipe(slow, sequential("tail", "1 + 0.001 n log2(n)")).slowest()[0].name == "tail"
    # A third of 0.3 is 0.1, which binary fractions miss.
    tie = pipe(tpool(sequential("third", "0.3 n"), 3), sequential("more", "1 + 0.1 n"))
    assert tie.slowest()[0].name == "more"


def test_several_parameters_keep_what_no_other_outgrows():
    both = pipe(sequential("a", "n^2"), sequential("b", "p^3"), sequential("c", "5 n + 2 p"))
    assert both.formula() == "max(n^2, p^3)"
    assert both.predict({"n": 10, "p": 3}, "asymptotic") == 100
    assert both.predict({"n": 2, "p": 3}, "asymptotic") == 27
    assert pipe(sequential("a", "n p"), sequential("b", "n + p")).formula() == "n p"


def test_values_broadcast():
    program = pipe(sequential("a", "n"), sequential("b", "2 p"))
    result = program.predict({"n": [[1], [2], [30]], "p": [1, 4]})
    assert result.tolist() == [[2, 8], [2, 8], [30, 30]]
    assert sequential("nop", "0.5").predict({"n": [1, 2]}).tolist() == [0.5, 0.5]
    assert sequential("nop", "0.5").predict({}).shape == ()


terms = st.lists(
    st.tuples(
        st.integers(-9, 9).filter(bool).map(float),
        st.sampled_from([0, 0.25, 1 / 3, 0.5, 1, 1.25, 2, 3, -1]),
        st.sampled_from([0, 0.5, 1, 2]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(terms)
def test_formula_reads_back(drawn):
    sums = {}
    for c, i, j in drawn:
        sums[i, j] = sums.get((i, j), 0) + c
    written = format_terms(
        [(c, ((i, j),)) for (i, j), c in sums.items() if c] or [(0.0, ((0, 0),))], ["n"]
    )
    names, found = Formula(written).terms()
    expected = {key: c for key, c in sums.items() if c}
    assert {e[0] if names else (0, 0): c for c, e in found if c} == expected


@settings(max_examples=60, deadline=None)
@given(terms, st.one_of(st.just(1.0), st.floats(0.01, 50)), st.floats(1.1, 1e4))
# Zero at the lower end and exactly where the search looks first, and before that.
@example([(-1.0, 0, 1), (16.0, 0, 2)], 1.0, 16.0)
@example([(-1.0, 0, 1), (16.0, 0, 2)], 1.0, 256.0)
@example([(1.0, 1, 1), (-30.0, -1, 2)], 1.0, 1000.0)
# The logarithm's pole hides that the powers cancel at 1.
@pytest.mark.slow
@example([(1.0, 1, 0), (-1.0, 0, 0), (-900.0, 0, 2)], 1.0, 1000.0)
@example([(7.0, 0.25, 1), (-9.0, 1, 0.5), (2.0, -1, 0)], 1.000001, 10.0)
def test_crossings_against_a_fine_grid(drawn, low, ratio):
    """Every change of sign on a fine grid is found, and the sign is one between two crossings."""
    sums = {}
    for c, i, j in drawn:
        sums[i, j] = sums.get((i, j), 0) + c
    found = find_crossings(sums, low, low * ratio)
    assert found == sorted(found)
    # As fine beside the lower end as elsewhere.
    grid = np.unique(
        [np.geomspace(low, low * ratio, 501), low + low * np.geomspace(1e-8, ratio - 1, 501)]
    )
    size = np.array([sum(abs(evaluate_sum({k: c}, x)) for k, c in sums.items()) for x in grid])
    y = np.array([evaluate_sum(sums, x) for x in grid])
    sure = np.abs(y) > 1e-9 * size
    for part in np.split(np.arange(grid.size), np.searchsorted(grid, found)):
        signs = np.sign(y[part][sure[part]])
        assert np.all(signs == signs[:1]), (sums, found)


def passed(tree, n, p):
    """Latency of a tree from its definition: one item goes through all stages, on one worker."""
    if isinstance(tree, str):
        return naive(tree, n, p)
    if tree[0] == "tpool":
        return passed(tree[1], n, p)
    return sum(passed(part, n, p) for part in tree[1])


@settings(max_examples=60, deadline=None)
@given(trees, places, places)
def test_latency_is_the_definition_and_obeys_the_laws(tree, n, p):
    program = built(tree)
    at = place(program, n, p)
    assert program.latency(at) == pytest.approx(passed(tree, n, p), rel=1e-9)
    assert tpool(program, 3).latency(at) == program.latency(at)
    assert program.simplified().latency(at) == program.latency(at)
    assert (program.latency(at) >= program.predict(at) * (1 - 1e-12)).all()


ITEM = {
    "split": sequential("split", "3 + 0.1 n"),
    "sort": sequential("sort", "2 + n log2(n) + 0.01 n log2(n)^2"),
    "merge": sequential("merge", "n"),
}


def at(task, n):
    return ITEM[task].predict({"n": n}).item()


def test_divide_and_conquer_halves_the_item_at_every_level():
    parts = ITEM.values()
    assert shared("dac", 1, *parts).predict({"n": 999.0}) == pytest.approx(at("sort", 999.0))
    for workers in (2, 4, 64):
        whole, half = shared("dac", workers, *parts), shared("dac", workers // 2, *parts)
        for n in (64.0, 1000.0, 2.0**20):
            inner = half.predict({"n": n / 2}).item()
            assert whole.predict({"n": n}) == pytest.approx(
                at("split", n) + at("merge", n) + inner, rel=1e-9
            )


def test_a_scan_takes_a_part_a_tree_and_the_offsets():
    scan, combine = ITEM["sort"], ITEM["merge"]
    assert shared("scan", 1, scan, combine).predict({"n": 777.0}) == pytest.approx(at("sort", 777))
    for workers, rounds in ((2, 1), (5, 3), (64, 6)):
        n = 4096.0
        time = at("sort", n / workers) + rounds * at("merge", 1.0) + at("merge", n / workers)
        found = shared("scan", workers, scan, combine)
        assert found.predict({"n": n}) == pytest.approx(time, rel=1e-9)


def test_patterns_are_read_and_nest():
    program = composed("pipe(tpool_2(dac_4(split, sort, merge)), split)", ITEM)
    inner = shared("dac", 4, *ITEM.values())
    assert program == pipe(tpool(inner, 2), ITEM["split"])
    # A part goes through all stages of a task.
    both = shared("scan", 4, pipe(ITEM["split"], ITEM["sort"]), ITEM["merge"])
    apart = shared("scan", 4, ITEM["sort"], ITEM["merge"]).predict({"n": 100.0})
    assert both.predict({"n": 100.0}) == pytest.approx(apart + at("split", 25.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dac_3(split, sort, merge)", "dac halves the item: found 3 workers"),
        ("dac_4(split, sort)", "dac takes 3 tasks: found 2, expected divide, solve, merge"),
        ("scan_0(sort, merge)", "bad number of workers: found 0"),
        ("scan_4", "a whole number T of workers"),
        ("scan_2(root, merge)", "workers cannot share an item of root"),
    ],
)
def test_wrong_patterns(text, message):
    tasks = ITEM | {"root": sequential("root", "n log2(n)^(1/2)")}
    with pytest.raises(InputError) as error:
        composed(text, tasks)
    assert message in str(error.value)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 5))
def test_no_other_shares_of_workers_are_faster(times, workers):
    tasks = [sequential(f"t{k}", f"{time}") for k, time in enumerate(times)]
    program, steps = replicate(pipe(*tasks), workers, {})
    shares = [[]]
    for _ in times:
        shares = [[*some, n] for some in shares for n in range(1, workers + 2)]
    fits = [some for some in shares if sum(some) <= len(times) + workers]
    best = min(max(t / n for t, n in zip(times, some, strict=True)) for some in fits)
    assert steps["time"].iloc[-1] == pytest.approx(best)
    assert program.predict({}) == pytest.approx(best)
    assert steps["gain"].prod() == pytest.approx(steps["speed_up"].iloc[-1])


def test_a_fixed_stage_ends_the_replication():
    program = pipe(sequential("io", "4"), sequential("solve", "9"))
    better, steps = replicate(program, 5, {}, fixed=["io"])
    assert str(better) == "pipe(io, tpool_3(solve))"
    assert steps["time"].tolist() == [4.5, 4.0]
    with pytest.raises(InputError, match="bad number of workers"):
        replicate(program, 0, {})
