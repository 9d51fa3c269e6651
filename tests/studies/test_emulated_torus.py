from studies.emulated_torus import measured
from studies.study import Inputs


def test_cases_are_what_was_measured(shared_data):
    (shared_data / "emulated-torus/times.csv").exists()
    large, small, rounds = measured.read(Inputs(data=shared_data))
    assert [case.name for case in (large, small, rounds)] == [
        "halo2d 32,768 B",
        "halo2d 8,192 B",
        "suba2a8 8,192 B",
    ]
    for case in (large, small, rounds):
        assert [mapping.name for mapping in case.mappings] == list(case.runs.names)
        assert len(case.mappings) == 57
        assert case.runs.counts.min() >= 5
        assert 0.01 < case.runs.noise < 0.05
    # Seven rounds, in which every task sends to another of its group of eight.
    assert len(rounds.workload) == 7
    for phase in rounds.workload:
        assert (phase.src // 8 == phase.dst // 8).all()
        assert (phase.dst[phase.dst] == phase.src).all()
