"""How names of strategies are written: examples, axes' letters, messages, the page."""

import re
from pathlib import Path

import numpy as np
import pytest

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import Torus, machines, patterns, strategies

PAGE = (Path(__file__).parents[2] / "docs/reference/strategies.md").read_text()
HALO = patterns.halo_3d((4, 4, 4), 8)
CUBE = Torus((4, 4, 4))
TOFU = machines.tofu_d((2, 2, 2, 2, 3, 2))


@pytest.mark.parametrize("name", strategies.names())
def test_examples_of_messages_work(name):
    comm = patterns.halo_3d((2, 2, 1), 8) if name.startswith("nth") else HALO
    torus = Torus((4,)) if name.startswith("nth") else CUBE
    capacity = 4 if name.startswith("blocked") else None
    assert strategies.make(name, comm, torus, tasks_per_node=capacity).name == name


def test_the_page_has_every_strategy_and_its_example():
    rows = re.findall(r"^\|.*\| `([^`]+)` \| `([^`]+)` \|", PAGE, re.M)
    assert dict(rows) == {s.form: s.example for s in strategies.STRATEGIES.values()}


def test_every_parameter_is_explained():
    for strategy in strategies.STRATEGIES.values():
        for word in strategy.form.split("-")[1:]:
            assert re.search(rf"\b{word}\b", strategy.parameters), strategy.form


@pytest.mark.parametrize("family", [form.partition("-")[0] for form in strategies.patterns()])
@pytest.mark.parametrize("torus", [CUBE, TOFU, machines.bluegene_q((2, 2, 4, 2, 2))], ids=str)
def test_the_example_of_a_message_suits(family, torus):
    """What a message suggests is taken."""
    form = strategies.STRATEGIES[family].form
    with pytest.raises(InputError) as caught:
        strategies.make(family + ("" if "-" in form else "-x"), HALO, torus)
    found = re.search(r", expected (\S+)(?: such as ([^;]+); .*)?$", str(caught.value))
    assert found[1] == form
    assert not str(caught.value).endswith("...")
    if family not in ("nth", "blocked"):
        strategies.make(found[2] or form, HALO, torus)


def test_letters_are_the_machine_s_own():
    assert TOFU.axes == "XYZabc"
    assert machines.tofu_d((4, 4, 4)).axes == "XYZ"
    assert machines.bluegene_q().axes == "ABCDE"
    assert Torus((2,) * 4).axes == "ABCD"
    turned = strategies.make("permute-cbaZYX", HALO, TOFU)
    plain = strategies.make("permute-FEDCBA", HALO, Torus(TOFU.shape))
    np.testing.assert_array_equal(turned.node, plain.node)
    assert strategies.make("tilt-Xa-1", HALO, TOFU).name == "tilt-Xa-1"
    names = strategies.variants(HALO, TOFU)
    assert "zigzag-XYZabc" in names
    assert not any(re.search("[D-F]", name) for name in names)
    with pytest.raises(InputError, match="here X Y Z a b c T"):
        strategies.make("permute-ABCDEF", HALO, TOFU)
    assert Torus((2, 3), axes="pq").with_network(fifos=2).axes == "pq"


def test_parse_torus_names_the_usual_axes():
    assert tc.torus("2x2x2x2").axes == "ABCD"
