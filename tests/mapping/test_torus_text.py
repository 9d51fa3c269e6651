"""The text that a torus is printed as reads back as the same torus."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast.errors import InputError
from toruscast.formats import (
    read_comm,
    read_mapping,
    read_mappings,
    write_comm,
    write_mapping,
    write_mappings,
)
from toruscast.mapping import CommGraph, TaskMapping, Torus, machines

SIZES = st.integers(1, 8)


def shapes(ndim):
    return st.tuples(*[SIZES] * ndim)


def flags(ndim):
    return st.tuples(*[st.booleans()] * ndim)


@st.composite
def tofu(draw):
    ndim = draw(st.sampled_from([1, 2, 3, 6]))
    outer = draw(shapes(min(ndim, 3)))
    wrap = draw(st.one_of(st.booleans(), flags(min(ndim, 3))))
    preset = draw(st.sampled_from([machines.k_computer, machines.tofu_d]))
    return preset(outer + (2, 3, 2) * (ndim == 6), wrap=wrap)


@st.composite
def accelerators(draw):
    preset = draw(st.sampled_from([machines.tpu_v4, machines.tpu_v5p, machines.tpu7x]))
    return preset(draw(shapes(3).filter(lambda shape: math.prod(shape) <= 4096)))


@st.composite
def squares(draw):
    preset = draw(st.sampled_from([machines.tpu_v2, machines.tpu_v5e, machines.tpu_v6e]))
    return preset(draw(st.tuples(st.integers(1, 16), st.integers(1, 16))))


HOSTS = st.one_of(
    st.builds(machines.bluegene_l, shapes(3)),
    st.builds(machines.bluegene_p, shapes(3)),
    st.builds(machines.anton3, shapes(3)),
    st.builds(machines.bluegene_q, shapes(5), wrap=st.one_of(st.booleans(), flags(5))),
    st.builds(machines.gemini, shapes(3), wrap=flags(3)),
    st.builds(machines.seastar, shapes(3), wrap=flags(3)),
    st.builds(machines.galaxy, shapes(2), wrap=flags(2)),
    tofu(),
    accelerators(),
    squares(),
    st.just(machines.trainium1()),
    st.just(machines.tpu_v3((8, 32))),
    st.sampled_from([(4, 4), (4, 4, 4)]).map(machines.trainium2),
    st.integers(1, 6).flatmap(lambda n: st.builds(Torus, shapes(n), wrap=flags(n))),
)


@settings(deadline=None, max_examples=300)
@given(HOSTS)
def test_printed_names_read_back(torus):
    assert tc.torus(str(torus)) == torus
    assert tc.torus(str(torus).replace(" ", ":")) == torus


def test_every_preset_stands_in_the_law():
    covered = {"anton3", "bluegene_l", "bluegene_p", "bluegene_q", "galaxy", "gemini", "seastar"}
    covered |= {"k_computer", "tofu_d", "tpu7x", "tpu_v2", "tpu_v3", "tpu_v4", "tpu_v5e", "tpu_v5p"}
    covered |= {"tpu_v6e", "trainium1", "trainium2"}
    assert set(machines.names()) == covered


@pytest.mark.parametrize("name", machines.names())
@pytest.mark.parametrize("blank", ["", " "])
def test_nothing_behind_the_colon(name, blank):
    with pytest.raises(InputError, match="machine without its sizes") as caught:
        tc.torus(f"{name}:{blank}")
    assert f"expected {name} alone, or with sizes as in {name}:" in str(caught.value)
    assert tc.torus(str(caught.value).split()[-1]) == machines.torus_from_text(name)


@pytest.mark.parametrize("value", [8, None, b"8x8", 4.0, "", {8: 8}])
def test_what_is_no_torus(value):
    with pytest.raises(InputError, match="bad torus"):
        tc.torus(value)


def test_a_word_is_a_machine():
    with pytest.raises(InputError, match="unknown machine: found eight"):
        tc.torus("eight")


TORUS = Torus((2,))


@pytest.mark.parametrize("path", [None, 8, b"a.txt", ["a.txt"]])
@pytest.mark.parametrize(
    "work",
    [
        read_comm,
        lambda path: read_mapping(path, TORUS),
        lambda path: read_mappings(path, TORUS),
        lambda path: write_comm(CommGraph(2, [0], [1], [8]), path),
        lambda path: write_mapping(TaskMapping([0, 1], TORUS), path, torus=TORUS),
        lambda path: write_mappings([], path, torus=TORUS),
    ],
)
def test_what_is_no_path(work, path):
    with pytest.raises(InputError, match=r"bad path: found .*, expected the name of a file"):
        work(path)
