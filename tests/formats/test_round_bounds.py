"""Bounds of the rounds of recorded programs are no longer than the programs take."""

import numpy as np
import pytest
from mpi_programs import RandomProgram, run_program, write_trace

from toruscast._features import RoutedTraffic
from toruscast.formats import read_workload
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.routing.bounds import min_time

# Without headers, the bytes on the wire do not depend on how messages of a round are summed.
NETWORK = {"header": 0, "fifo_rule": "first_dimension", "hop_latency": 1e-7}
TORI = ((8,), (2, 4), (3, 3), (2, 2, 2))


def measure_program(seed, folder, overhead, region="all"):
    """A recorded program on a torus, its mapping, and the seconds that it takes."""
    rng = np.random.default_rng(seed)
    program = RandomProgram(rng)
    write_trace(folder, program.ranks, program.groups, region)
    torus = Torus(TORI[rng.integers(len(TORI))]).with_network(overhead=overhead, **NETWORK)
    problem = MappingProblem(read_workload(folder), torus)
    mapping = TaskMapping(rng.permutation(torus.n_nodes)[: program.n], torus)
    return problem, mapping, run_program(program.ranks, program.groups, torus, mapping.node)


@pytest.mark.parametrize("seed", range(40))
def test_no_bound_is_above_the_time_of_the_program(tmp_path, seed):
    problem, mapping, seconds = measure_program(seed, tmp_path, overhead=0)
    routed = RoutedTraffic(problem, mapping)
    assert min_time(problem) <= seconds * (1 + 1e-9)
    assert routed.sure_bound <= seconds * (1 + 1e-9)
    assert routed.sure_bound <= routed.simulation.time


@pytest.mark.parametrize("seed", range(40))
def test_software_keeps_the_bound_of_all_mappings(tmp_path, seed):
    # The bound of a mapping assumes an order in which a task hands over the messages of a round.
    problem, _, seconds = measure_program(seed, tmp_path, overhead=2e-6)
    assert min_time(problem) <= seconds * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore:.*repeat")
@pytest.mark.parametrize("seed", range(10))
def test_an_iteration_takes_no_longer_than_the_program(tmp_path, seed):
    problem, mapping, seconds = measure_program(seed, tmp_path, 0, "iteration")
    assert RoutedTraffic(problem, mapping).sure_bound <= seconds * (1 + 1e-9)
