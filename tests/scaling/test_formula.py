"""Expressions: the same values as Python's own arithmetic, and nothing but arithmetic."""

import ast
import copy
import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.scaling.formula import FUNCTIONS, MAX_LENGTH, Formula, evaluate_terms, format_terms

PYTHON = {
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "allreduce": math.log2,
    "bcast": math.log2,
    "alltoall": lambda p: p - 1,
}
numbers = st.sampled_from(["0.5", "1", "2", "3.", ".25", "1e3", "2E-1", "1.5e+2"])
leaves = numbers | st.sampled_from(["p", "n"])
spaces = st.sampled_from(["", " ", "\n", "  "])
trees = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(inner, spaces, st.sampled_from(["+", "-", "*", "/"]), spaces, inner).map("".join)
        | st.tuples(inner, st.sampled_from(["**2", " ** -1", "**0.5"])).map(
            lambda t: f"({t[0]}){t[1]}"
        )
        | inner.map(lambda t: f"({t})")
        | inner.map(lambda t: f"-{t}")
        | st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner).map(lambda t: f"{t[0]}({t[1]})")
    ),
    max_leaves=12,
)


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def arithmetic(node, values):
    """Value of a tree that Python's own parser made."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return values[node.id]
        case ast.UnaryOp(op=ast.USub()):
            return -arithmetic(node.operand, values)
        case ast.BinOp():
            sides = (arithmetic(side, values) for side in (node.left, node.right))
            return OPERATORS[type(node.op)](*sides)
        case ast.Call():
            return PYTHON[node.func.id](arithmetic(node.args[0], values))
    raise AssertionError(ast.dump(node))


@given(trees, st.floats(1, 1e6), st.floats(1, 1e6))
def test_values_are_those_of_python(text, p, n):
    try:
        # In parentheses, line breaks do not end an expression.
        expected = arithmetic(ast.parse(f"({text})", mode="eval").body, {"p": p, "n": n})
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        # Powers of negative numbers are complex in Python, and no function takes those.
        expected = math.nan
    value = float(Formula(text)(p=p, n=n))
    if isinstance(expected, complex) or not math.isfinite(expected):
        assert not math.isfinite(value)
    else:
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.text("pnlog2sqrt()+-*/^. eE_[]é\0\n'\"{},:", max_size=40))
def test_any_text_is_an_expression_or_an_input_error(text):
    message = ""
    try:
        assert Formula(text).text == text
    except InputError as error:
        message = str(error)
    assert not message or "column" in message
    assert len(message.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("n log n", 7, "a parenthesis after log"),
        ("x * n", 1, "p or n"),
        ("log n", 5, "parenthesis after log"),
        ("log(n", 6, "closing parenthesis"),
        ("n)", 2, "opening"),
        ("n +", 4, "a number"),
        ("", 1, "a number"),
        ("3 + * n", 5, "a number"),
        ("1e999", 1, "finite"),
        ("n.real", 2, "a factor"),
        ("__import__('os').system('x')", 1, "functions"),
        ("(lambda: 1)()", 2, "p or n"),
        ("n if p else 2", 3, "p or n"),
        ("log10(n)", 1, "log2"),
        ("NaN", 1, "a finite number"),
        ("ln n", 1, "log"),
        ("log2(log10)", 6, "log"),
        ("2 inf n", 3, "a finite number"),
        ("1e n", 2, "a blank"),
        ("1.2.3 n", 4, r"a blank or \* after 1.2"),
        ("n # comment", 3, "a factor"),
        ("0x10 n", 2, r"a blank or \* after 0"),
        ("1_000 n", 2, "a blank"),
        ("(" * 60 + "n" + ")" * 60, 51, "levels"),
        ("-" * 60 + "n", 51, "levels"),
        ("n" + "+n" * MAX_LENGTH, MAX_LENGTH + 1, "at most"),
        (5, 1, "a text"),
        (None, 1, "a text"),
    ],
)
def test_wrong_text(text, column, expected):
    with pytest.raises(InputError, match=rf"column {column}: found .* expected .*{expected}"):
        Formula(text, ("p", "n"))


def test_place_and_file_are_named():
    with pytest.raises(InputError, match=r"^a\.toml: solver, flop: bad formula, column 3"):
        Formula("n ! n", file="a.toml", place="solver, flop")


def test_powers_bind_as_in_python():
    assert Formula("-n**2")(p=1, n=3) == -9
    assert Formula("2**n**2")(p=1, n=3) == 512
    assert Formula("2**-n")(p=1, n=1) == 0.5
    assert Formula("8 / 4 / 2 - 1 - 1")(p=1, n=1) == -1


def test_long_chains_are_evaluated():
    assert Formula("+".join(["n"] * (MAX_LENGTH // 2)))(p=1, n=1) == MAX_LENGTH // 2


def test_arrays():
    values = Formula("n * log2(p) + 1")(p=np.array([2, 4]), n=np.array([3, 3]))
    assert values.tolist() == [4, 7]


def test_only_logarithms_are_held():
    text = "log(p) + log2(n) + allreduce(p) + bcast(p) + alltoall(p) + n"
    held = {"p": 2.0, "n": 4.0}
    value = Formula(text)(p=8.0, n=16.0, held=held)
    assert value == pytest.approx(math.log(2) + 2 + 1 + 1 + 7 + 16)


def test_copies():
    model = Formula("n * log2(p)")
    assert copy.deepcopy(model)(p=4, n=3) == 6


@pytest.mark.parametrize(
    ("printed", "plain"),
    [
        ("5 + 0.1 n^(3/2)", "5 + 0.1 * n**1.5"),
        ("3 n log2(p)^2", "3 * n * log2(p)**2"),
        ("2 log2^2 (n)", "2 * log2(n)**2"),
        ("log2^2(n)^3", "log2(n)**6"),
        ("n log2 p", "n * log2(p)"),
        ("1 / 2 n", "(1 / 2) * n"),
        ("2 (n + p)", "2 * n + 2 * p"),
        ("n^-1", "1 / n"),
        ("`n`^2", "n * n"),
        ("log(p)", "0.6931471805599453 * log2(p)"),
        ("sqrt(n p)", "n**0.5 * p**0.5"),
        ("n alltoall(p)", "n * p - n"),
    ],
)
def test_the_printed_form_is_arithmetic_too(printed, plain):
    at = {"p": np.array([4.0, 9.0]), "n": np.array([3.0, 7.0])}
    assert Formula(printed)(**at) == pytest.approx(Formula(plain)(**at), rel=1e-12)
    parameters, terms = Formula(printed).terms()
    X = np.stack([at[name] for name in parameters], axis=1)
    assert evaluate_terms(terms, X) == pytest.approx(Formula(plain)(**at), rel=1e-12)


@pytest.mark.parametrize(
    "names",
    [
        ("p", "n"),
        ("p^2", "log2"),
        ("number of ranks", "sqrt"),
        ("a`b", "inf"),
        ("3", "µ"),
        ("2 n", "n_2"),
    ],
)
def test_what_fit_prints_is_read(names):
    written = [(2.5, ((0, 0), (0, 0))), (-0.1, ((1.5, 1), (0, 0))), (3.0, ((-1, 0), (0.25, 2)))]
    parameters, terms = Formula(format_terms(written, names, None)).terms()
    assert sorted(parameters) == sorted(names)
    swap = parameters != names
    expected = [(c, e[::-1] if swap else e) for c, e in written]
    assert sorted(terms) == sorted(expected)


def test_a_value_for_every_parameter():
    with pytest.raises(InputError, match="found p, expected n"):
        Formula("n p")(p=3)
