"""Collectives measured on Fugaku: what their names stand for, and what those send."""

import dataclasses

import numpy as np
import pytest

from studies.fugaku.algorithms import parse
from studies.fugaku.chain import message_chain
from studies.fugaku.footprint import footprint, lanes_in_turn, simulated_bytes
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.collectives import names, schedule
from toruscast.routing import time_bounds

# Collective, name of the algorithm, schedule, layer, ports, segment in bytes and whether ports run
# at once. Over MPI the distance that the name asks for is not looked at.
NAMES = """
allreduce BINE-L-UTOFU-0-6 allreduce/bine utofu 6 0 True
allreduce RECDOUB-B_CONT-UTOFU-65536-3 allreduce/torus_binary_rabenseifner utofu 3 65536 True
gather BINE-BINOMIAL_TREE_CONT_PERMUTE-INC-UTOFU-0-1 gather/bine_near utofu 1 0 True
scatter BINE-BINOMIAL_TREE_CONT_PERMUTE-MPI-0-1 scatter/bine mpi 1 0 False
scatter BINE-BINOMIAL_TREE_CONT_PERMUTE-UTOFU-0-6 scatter/bine_near utofu 6 0 True
gather RECDOUB-BINOMIAL_TREE_CONT_PERMUTE-UTOFU-0-3 gather/torus_binary utofu 3 0 True
gather BINE-BINOMIAL_TREE_CONT_PERMUTE-DEC-MPI-0-1 gather/bine_near mpi 1 0 False
gather BINE-BINOMIAL_TREE_CONT_PERMUTE-MPI-0-1 gather/bine_near mpi 1 0 False
reduce BINE-BINOMIAL_TREE-MPI-1048576-1 reduce/bine mpi 1 0 False
reduce default-binary reduce/binary fjmpi 1 16384 False
reduce default-in-order-binary reduce/in_order_binary fjmpi 1 65536 False
alltoall BRUCK-LOG-MPI-0-1 alltoall/bruck mpi 1 0 False
alltoall BRUCK-LOG-UTOFU-0-6 alltoall/bruck mpi 1 0 False
allreduce RING-B_CONT-UTOFU-4096-6 allreduce/bucket utofu 6 0 True
bcast default-trinaryx6 bcast/pipelined_trees trees 6 16384 True
reduce_scatter default-ring reduce_scatter/ring fjmpi 1 0 False
"""


@pytest.mark.parametrize("row", NAMES.strip().splitlines())
def test_names_stand_for_schedules(row):
    collective, algorithm, *expected = row.split()
    found = parse(collective, algorithm, 2.0**20, 3, 64)
    told = dataclasses.astuple(found)
    assert [str(each) for each in told[:1] + told[2:6]] == expected
    assert found.schedule in names()


@pytest.mark.parametrize(
    "algorithm", ["default-default", "default-rdbc", "BINE-MAGIC-UTOFU-0-1", "BINE", "", "A-B-C-D"]
)
def test_unknown_names_are_left_out(algorithm):
    assert parse("allreduce", algorithm, 4.0, 3, 64) is None


# Buckets go both ways along three dimensions; over MPI ports are not what they seem, and trees are
# bine ones whatever they are called.
UNKNOWN = """
bcast/RING-X-UTOFU-0-1 alltoall/RING-X-UTOFU-0-1 allreduce/RING-X-UTOFU-0-1
allgather/BRUCK-X-UTOFU-0-1 alltoall/RECDOUB-LOG-UTOFU-0-1 allreduce/BINE-L-UTOFU-0-8
allreduce/BINE-B_CONT-UTOFU-0-12 allreduce/BINE-L-UTOFU-0-0 scan/default-linear
allreduce/RING-B_CONT-UTOFU-0-4 allreduce/RING-B_CONT-MPI-0-6 bcast/BINE-BINOMIAL_TREE-MPI-0-3
bcast/RECDOUB-BINOMIAL_TREE-MPI-0-1
"""


@pytest.mark.parametrize("name", UNKNOWN.split())
def test_unknown_collectives_and_ports_are_left_out(name):
    assert parse(*name.split("/"), 2.0**20, 3, 64) is None


def test_footprint_in_closed_form():
    torus = Torus((4, 4, 4))
    mapping = TaskMapping(np.arange(64), torus)

    def of(name, **options):
        return footprint(schedule(name, 64, 6400.0, (4, 4, 4), **options), torus, mapping)

    # Bucket: neighbours only, a sixth of the vector on each port.
    bucket = of("allgather/bucket", ports=6)
    assert bucket.rounds == 9
    assert bucket.carried == pytest.approx(6400 / 6 * 63 / 64)
    # Bine distances in a ring of four are 1 and -1.
    assert of("allreduce/bine").hops == 6
    assert of("allreduce/bine").added == pytest.approx(6 * 6400)
    assert of("allreduce/bine", ports=3).carried == pytest.approx(2 * 6400)
    # All into one node, through one port of it.
    gather = of("gather/linear")
    assert (gather.rounds, gather.messages) == (1, 63)
    assert gather.carried == pytest.approx(63 * 100)
    # The ports one after the other: as many bytes as through one.
    one, three = (schedule("reduce/bine", 64, 6400.0, (4, 4, 4), ports=p) for p in (1, 3))
    in_turn = footprint(lanes_in_turn(three), torus, mapping)
    assert in_turn.sent == pytest.approx(footprint(one, torus, mapping).sent)
    assert in_turn.rounds == 3 * 6


def test_exchanges_at_once_are_bounded_by_their_total():
    torus = Torus((4, 4), bandwidth=(1.0,))
    mapping = TaskMapping(np.arange(16), torus)
    plan = schedule("alltoall/linear", 16, 1600.0)
    bounds = time_bounds(
        MappingProblem(plan.workload(), torus.with_network(header=0, payload=1)), mapping
    )
    found = footprint(plan, torus, mapping)
    assert found.carried == pytest.approx(max(bounds.link, 1500.0))
    assert (found.rounds, found.messages) == (1, 15)


def test_simulation_lies_between_a_round_and_the_sum_of_the_rounds():
    torus = Torus((4, 4, 4))
    mapping = TaskMapping(np.arange(64), torus)
    for name, ports in (("allreduce/bine", 3), ("bcast/binary", 1), ("allgather/ring", 1)):
        plan = schedule(name, 64, 2.0**26, (4, 4, 4), ports=ports)
        found = simulated_bytes(plan, torus, mapping)
        carried = footprint(plan, torus, mapping).carried
        assert carried / footprint(plan, torus, mapping).rounds < found < 1.05 * carried


def test_one_task_sends_nothing():
    torus = Torus((1, 1))
    mapping = TaskMapping([0], torus)
    for name in ("allgather/ring", "bcast/bine", "reduce/binomial", "allreduce/bucket"):
        assert simulated_bytes(schedule(name, 1, 2.0**20, (1, 1)), torus, mapping) == 0


def chain_one_by_one(plan):
    """Messages on the longest chain, message by message."""
    done = [0.0] * plan.n_tasks
    for times, steps in plan.rounds():
        for _ in range(times):
            sent, arrivals = list(done), []
            for step in steps:
                for src, dst in zip(step.src.tolist(), step.dst.tolist(), strict=True):
                    sent[src] += step.pieces
                    arrivals.append((sent[src], dst, step.pieces))
            after = list(done)
            for when, dst, pieces in sorted(arrivals):
                after[dst] = max(after[dst] + pieces, when)
            done = [max(a, b) for a, b in zip(after, sent, strict=True)]
    return max(done)


@pytest.mark.parametrize("name", names())
def test_message_chain_is_that_of_messages_one_by_one(name):
    grids = [(8,), (4, 4), (2, 2, 2)]
    for grid in grids:
        for ports in (1, 3):
            try:
                plan = schedule(name, int(np.prod(grid)), 64.0, grid, ports=ports, segment=20)
            except InputError:
                continue  # not that number of ports or trees
            if not plan.at_once:
                assert message_chain(plan) == pytest.approx(chain_one_by_one(plan))


def test_message_chains_in_closed_form():
    def of(name, n):
        return message_chain(schedule(name, n, 1.0))

    for n in (2, 8, 64):
        # The k-th child of a binomial tree comes k messages after its parent.
        assert of("bcast/binomial", n) == of("reduce/binomial", n) == np.log2(n)
        assert of("scatter/linear", n) == of("gather/linear", n) == n - 1
        assert of("allgather/ring", n) == of("alltoall/linear", n) == n - 1
    # Two messages a level, as long as a level is full: 15 tasks have three below the root.
    assert of("bcast/binary", 15) == of("reduce/binary", 15) == 6
