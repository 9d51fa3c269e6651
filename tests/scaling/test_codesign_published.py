"""Why figures of the published applications differ, as docs/scaling/codesign.md says."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from toruscast.scaling import STRAW_MEN, Application, System, application, compare_systems
from toruscast.scaling import upgrade_ratios as ratios
from toruscast.scaling.codesign import _load_models


def changed(name, **models):
    """Return a published application with some of its models replaced."""
    own = {key: model.text for key, model in application(name).requirements.items()}
    return Application(name, own | models)


def growth(app, requirement, *base):
    table = ratios(app, *base)
    return table[table["requirement"] == requirement]["growth_ratio"].tolist()


def test_double_memory_holds_nearly_twice_the_problem_of_lulesh():
    lulesh = application("lulesh")
    for n in (100.0, 1e6):
        memory = lulesh.need("bytes_used", p=1e5, n=n)
        assert 1.7 < lulesh.largest(1e5, 2 * memory) / n < 2
        assert 0.5 < lulesh.largest(1e5, memory / 2) / n < 0.6


def test_loads_of_lulesh_with_the_power_of_its_neighbours():
    app = changed("lulesh", loads_stores="1e5 * n * log(n) * p**0.25 * log2(p)")
    assert growth(app, "loads_stores") == pytest.approx([1.19, 0.59, 2.0], abs=0.01)


def test_no_base_gives_both_published_loads_of_kripke():
    for p in np.geomspace(10, 1e6, 30):
        a, b, _ = growth(application("kripke"), "loads_stores", System("base", p, 1e9))
        assert not (abs(a - 2) <= 0.05 and abs(b - 0.5) <= 0.05)


def test_each_reading_has_its_print_and_reason():
    for name, model in _load_models().items():
        own, as_printed = application(name), application(name, printed=True)
        for key, text in own.requirements.items():
            changed = key in model["readings"]
            assert (as_printed.requirements[key].text != text.text) == changed
            noted = [note for note in own.notes if note.startswith(f"{key}: printed as ")]
            assert len(noted) == changed
        assert not any("printed as" in note for note in as_printed.notes)


def test_as_printed_the_massively_parallel_system_takes_relearn_a_millisecond():
    times = [compare_systems(application("relearn", p))["wall_time"][0] for p in (False, True)]
    assert times == pytest.approx([4, 0.001], rel=0.1)


def test_published_loads_of_relearn_belong_to_different_terms():
    def at(memory):
        return growth(application("relearn"), "loads_stores", System("base", 1e5, memory))

    assert at(1e7) == pytest.approx([2, 2, 1], abs=0.02)
    assert at(1e12) == pytest.approx([1, 0.25, 4], abs=0.02)
    # Where the share s of the term in p makes 2 s + (1 - s) / 4 = 1, A is 1 + s and C 4 - 3 s.
    assert at(1.3e8) == pytest.approx([10 / 7, 1, 19 / 7], abs=0.06)
    for memory in np.geomspace(1e6, 1e13, 60):
        assert sum(abs(np.subtract(at(memory), [2, 1, 4])) <= 0.05) < 2


def test_tenfold_memory_gives_the_published_problem_and_time_of_kripke():
    table = compare_systems(changed("kripke", bytes_used="1e6 * n"))
    assert table["largest_problem"].tolist() == pytest.approx([1e10] * 3)
    assert table["wall_time"].tolist() == pytest.approx([0.1] * 3)


@pytest.mark.parametrize(
    ("log", "problems"),
    [
        ("log(n)", [3.5e10, 1.71e10, 1.9e10]),
        ("log2(n)", [2.67e10, 1.25e10, 1.4e10]),
        ("log(n) / log(10)", [6.59e10, 3.51e10, 3.87e10]),
    ],
)
def test_largest_problems_of_lulesh_by_the_base_of_the_logarithm(log, problems):
    app = Application("a", {"bytes_used": f"1e5 * n * {log}"})
    assert compare_systems(app)["largest_problem"].tolist() == pytest.approx(problems, rel=0.01)


def test_published_times_of_lulesh_follow_three_conventions():
    def seconds(problem, system, n_log_n=None):
        p, n = system.processes, problem / system.processes
        n_log_n = n * np.log2(n) if n_log_n is None else n_log_n
        return 1e5 * n_log_n * p**0.25 * np.log2(p) / system.flops

    massive, vector, hybrid = STRAW_MEN
    # The common problem, that of another system, and whatever fills the memory.
    assert seconds(1.7e10, hybrid) == pytest.approx(33, rel=0.02)
    assert seconds(1.9e10, massive) == pytest.approx(40, rel=0.02)
    assert seconds(1.7e10, vector, vector.memory / 1e5) == pytest.approx(21.5, rel=0.01)


@pytest.mark.parametrize("problem", [1.7e10, 1.9e10, 3.9e10])
def test_no_sum_of_the_printed_factors_gives_the_published_times_of_lulesh(problem):
    processes = np.array([system.processes for system in STRAW_MEN])
    flops = np.array([system.flops for system in STRAW_MEN])
    n, log_n, log_p = problem / processes, np.log2(problem / processes), np.log2(processes)
    terms = [
        n**a * log_n**b * processes**c * log_p**d / flops / [40, 21.5, 33]
        for a, b, c, d in product([0, 1, 1.25], [0, 1, 2], [0, 0.25], [0, 1])
    ]
    # Coefficients w >= 0 with the least e such that |sum of w times terms - 1| <= e.
    A = np.array([term / term.max() for term in terms]).T
    one, error = np.ones(3), np.ones((3, 1))
    bounds = {"A_ub": np.block([[A, -error], [-A, -error]]), "b_ub": np.append(one, -one)}
    assert linprog(np.append(np.zeros(len(terms)), 1), **bounds).fun > 0.13


def test_the_published_problem_of_relearn_takes_the_processes_of_another_system():
    _, vector, hybrid = STRAW_MEN
    n = application("relearn").largest(vector.processes, vector.memory)
    assert n * vector.processes == pytest.approx(2e12)
    assert n * hybrid.processes == pytest.approx(4e12)
