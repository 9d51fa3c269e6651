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
    return torus, comm, tc.rank(comm, torus, [odd, *mappings[1:]])


def test_names_show_as_text(objects):
    for each in objects:
        html = each._repr_html_()
        assert html.startswith("<table>")
        assert "<script" not in html
        assert "\u202e" not in html
        assert "x" * 1000 not in html


def test_every_result_has_a_short_repr_and_a_card():
    comm, torus = tc.patterns.halo_2d((4, 4), 4096, periodic=True), tc.Torus((4, 2, 2))
    mappings = tc.strategies.sample(comm, torus, n=8)
    times = {m.name: 1e-4 + tc.simulate(comm, torus, m).time for m in mappings}
    results = [
        torus,
        comm,
        tc.Workload([comm]),
        mappings[0],
        tc.rank(comm, torus, mappings),
        tc.plan(comm, torus, mappings, times),
        tc.mesh(torus, {"x": 16}, "x:allreduce:4MB"),
        tc.simulate(comm, torus, mappings[0]),
        tc.simulate_flows(comm, torus, mappings[0]),
        tc.Runs.from_times(times),
        tc.learn_runs(comm, torus, mappings, times, simulate=0),
        tc.search(comm, torus, n_sweeps=1),
        tc.explain(comm, torus, mappings[0], mappings[1]),
    ]
    for result in results:
        kind = type(result).__name__
        assert repr(result).startswith(f"{kind}("), kind
        assert len(repr(result)) < 300, kind
        assert "\n" not in repr(result)
        html = result._repr_html_()
        assert html.startswith("<table>"), kind
        assert len(html) < 100_000, kind
        assert "<svg" in html, kind


def test_facts_are_those_of_the_object(objects):
    torus, comm, answer = (each._repr_html_() for each in objects)
    assert "<th>nodes</th><td>16</td>" in torus
    assert "<td>X, Z</td>" in torus
    assert f"<td>{int(objects[0].link_exists.sum())}</td>" in torus
    assert "<th>tasks</th><td>16</td>" in comm
    assert "<td>4x4</td>" in comm
    assert answer.count("<tr><td>") == 5
    assert f"<th>certainty</th><td>{objects[2].verdict.kind}" in answer
