"""Headlines state what was computed: each gain is of two times from the same source, or a range."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toruscast as tc
from toruscast.answers.candidates import CandidateRanking, compare_times
from toruscast.answers.write import make_answer
from toruscast.mapping.omissions import Omission

TORUS = tc.Torus((4, 4)).with_network(unknown_rules=())
HALO = tc.patterns.halo_2d((4, 4), 40_000, periodic=True)
MAPPINGS = tc.strategies.sample(HALO, TORUS, n=14, seed=3)


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_gain_lies_within_the_range_that_is_stated(time, than, wide, wider):
    text = compare_times(time, (than / wide, than * wider), "X")
    shares = [1 - time / end for end in (than / wide, than * wider)]
    if text == "as long as X":
        assert max(map(abs, shares)) < 5e-4
        return
    assert text.endswith(" than X")
    assert ("more" in text) == (shares[0] < 0)
    assert ("less" in text) == (shares[1] > 0)
    assert compare_times(time, than, "X") == compare_times((time, time), (than, than), "X")


def test_times_from_different_sources_give_a_range():
    ends = [(80.0, 80.0), (100.0, 160.0)]
    same, apart = (
        CandidateRanking(["a", "b"], [80.0, 120.0], 1, sources=sources, intervals=ends)
        for sources in (["", ""], ["", " predicted"])
    )
    assert "33 % less than the default order of tasks (b, 120 s)" in str(same.headline())
    found = str(apart.headline())
    assert found == (
        "Use a: 80.0 s, 20 to 50 % less than the default order of tasks (b, 120 s predicted)"
    )


def test_a_plan_compares_with_the_default_order_as_far_as_it_was_measured():
    times = {m.name: tc.simulate(HALO, TORUS, m).time for m in MAPPINGS}
    rest = {name: times[name] for name in list(times) if name != "identity"}
    few = dict(sorted(rest.items())[:3])
    shuffled = tc.TaskMapping(np.random.default_rng(4).permutation(16), TORUS, name="slow")
    several = [*[m for m in MAPPINGS if m.name in few], shuffled.renamed("identity")]
    apart = str(make_answer(tc.plan(HALO, TORUS, several, few, noise=0.01)).headline)
    assert "(not measured)" in apart
    assert re.search(r"[0-9]+( % more)? to [0-9]+ % less", apart)
    few["identity"] = tc.simulate(HALO, TORUS, several[-1]).time
    told = str(make_answer(tc.plan(HALO, TORUS, several, few, noise=0.01)).headline)
    assert "(not measured)" not in told
    assert " to " not in told


@pytest.mark.parametrize("budget", [0, 1, None])
@pytest.mark.parametrize("comm", [HALO, tc.patterns.random_pairs(16, 4, 60_000, seed=2)])
def test_after_a_check_every_part_states_one_time_per_candidate(budget, comm):
    found = tc.rank(comm, TORUS, MAPPINGS, budget=budget, check=True)
    shown = make_answer(found)
    times = {m.name: tc.simulate(comm, TORUS, m).time for m in MAPPINGS}
    assert times[found.best.name] == min(times.values())
    table = shown.table
    column = next(each for each in table.visible_columns if each.plain_heading == "time")
    listed = dict(zip(table.values["mapping"], table.values[column.name], strict=True))
    assert listed == pytest.approx(times)
    assert list(listed.values()) == sorted(listed.values())
    chart = next(each for each in shown.sections if each.title == "How much faster").blocks[0]
    drawn = re.findall(r"<title>(\S+): ([0-9.]+) us</title>", chart.draw())
    assert [name for name, _ in drawn][:3] == list(listed)[:3]
    assert [float(time) for _, time in drawn] == sorted(float(time) for _, time in drawn)
    for name, time in drawn:
        assert float(time) == pytest.approx(1e6 * times[name], rel=6e-3)
    assert f"Before the check the answer was {found.unchecked.best.name}" in str(shown.sections)
    assert found.verdict.kind == "proved"


@pytest.mark.parametrize("how", [{"budget": 0}, {"budget": tc.Budget(seconds=1e-9)}])
def test_a_default_order_that_is_forecast_is_said_to_be(how):
    order = np.random.default_rng(1).permutation(16)
    far = tc.CommGraph(16, order[HALO.src], order[HALO.dst], HALO.nbytes)
    found = tc.rank(far, TORUS, tc.strategies.sample(far, TORUS, n=12), **how)
    head = str(make_answer(found).headline)
    assert head.count("predicted") == 2


def test_no_candidate_is_faster_only_where_that_is_proved():
    forecast, proved = (tc.rank(HALO, TORUS, MAPPINGS, budget=n) for n in (0, None))
    assert proved.verdict.kind == "proved"
    assert str(make_answer(proved).headline).endswith("; no candidate is faster")
    assert str(make_answer(forecast).headline).endswith("; no candidate is known to be faster")


def test_proofs_hold_for_what_is_counted_wherever_they_are_stated():
    work = replace(tc.mapping.as_workload(HALO), omitted=(Omission("ragged-all-to-all", "d"),))
    found, scope = tc.rank(work, TORUS, MAPPINGS), "for what is counted"
    best = tc.search(work, TORUS, [found.best], n_sweeps=2)
    ranked, searched = make_answer(found), make_answer(best)
    assert f"proved in simulation {scope})" in repr(found)
    for text in (found._repr_html_(), *(" ".join(each.lines) for each in (ranked, searched))):
        assert scope in text
        assert "Not counted: 1 ragged-all-to-all (d)" in text
    assert f"so this one is optimal {scope}." in " ".join(ranked.lines)
    assert f"so this one is optimal {scope}." in " ".join(searched.lines)
    assert ranked.badge == searched.badge == f"proved in simulation {scope}"


@pytest.mark.parametrize(
    ("interval", "gain"),
    [
        ((0.0995, 0.1), "10 % less"),
        ((0.08, 0.12), "8 to 12 % less"),
        ((-0.01, 0.02), "1 % more to"),
    ],
)
def test_a_search_states_a_gain_between_the_errors_of_its_times(interval, gain):
    slow = tc.TaskMapping(np.random.default_rng(4).permutation(16), TORUS, name="slow")
    found = tc.search(HALO, TORUS, [slow], n_sweeps=2)
    known = replace(found, value=0.9 * found.initial_value, gain_interval=interval)
    assert f", {gain}" in str(make_answer(known).headline)


def test_one_candidate_that_is_not_drawn_is_one():
    names, times = [str(i) for i in range(7)], [float(i + 1) for i in range(7)]
    drawn = CandidateRanking(names, times, 0).chart().draw()
    assert re.findall(r"(\d+) not drawn<", drawn) == ["1"]
    apart = CandidateRanking([*names, *"abcd"], [*times, *range(8, 12)], 7).chart().draw()
    assert re.findall(r"(\d+) not drawn<", apart) == ["2", "2"]
