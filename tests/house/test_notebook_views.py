"""Objects in a notebook: their facts, and names that show as text."""

import pytest

import toruscast as tc

HOSTILE = '<script>alert("1")</script>&\u202e' + "x" * 10_000


@pytest.fixture(scope="module")
def objects():
    torus = tc.Torus((4, 2, 2), wrap=(True, False, True), name=HOSTILE)
    halo = tc.patterns.halo_2d((4, 4), 4096)
    comm = tc.CommGraph(16, halo.src, halo.dst, halo.nbytes, grid=(4, 4), name=HOSTILE)
    mappings = tc.strategies.sample(comm, torus, n=6)
    odd = tc.TaskMapping(mappings[0].node, torus, name=HOSTILE)
    return torus, comm, tc.forecast(comm, torus, [odd, *mappings[1:]])


def test_names_show_as_text(objects):
    for each in objects:
        html = each._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
        assert "<script" not in html
        assert "\u202e" not in html
        assert "x" * 1000 not in html


def test_facts_are_those_of_the_object(objects):
    torus, comm, answer = (each._repr_html_() for each in objects)
    assert "<th>nodes</th><td>16</td>" in torus
    assert "<td>X, Z</td>" in torus
    assert f"<td>{int(objects[0].link_exists.sum())}</td>" in torus
    assert "<th>tasks</th><td>16</td>" in comm
    assert "<td>4x4</td>" in comm
    assert answer.count("<tr><td>") == 5
    assert f"{objects[2].verdict.kind}, " in answer
