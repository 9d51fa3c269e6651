"""Comparison of the packet simulator with its slow twin, shared by tests."""

import naive_simulator
import numpy as np

from toruscast.simulation import simulate
from toruscast.simulation.simulator import SEED_STEP
from toruscast.simulation.state import choose_tick


def check_against_twin(
    traffic, torus, mapping, routing="deterministic", coarsening=1, seed=0, iterations=1
):
    """Compare every message, link and FIFO."""
    result = simulate(
        traffic,
        torus,
        mapping,
        routing=routing,
        coarsening=coarsening,
        seed=seed,
        iterations=iterations,
    )
    workload = result.workload
    for stretch in result.stretches:
        rounds = [workload.phases[i] for i in stretch.phases]
        listed = stretch.messages
        tick, wheel = choose_tick(listed, torus)
        own = (seed + stretch.phases[0] * SEED_STEP) % 2**63
        twin = naive_simulator.Simulator(
            rounds, torus, mapping, routing, coarsening, own, tick, wheel - 1
        ).run()
        assert listed.edge.tolist() == [m.edge for m in twin.messages]
        assert all(m.to_receive == 0 for m in twin.messages)
        handed_over = np.array([m.opening.ready for m in twin.messages])
        arrived = np.array([m.finish for m in twin.messages])
        begin = stretch.begin
        np.testing.assert_allclose(stretch.handed_over, begin + handed_over * tick, 1e-12)
        np.testing.assert_allclose(stretch.arrived, begin + arrived * tick, 1e-12)
        for name in ("packets", "max_packets"):
            assert getattr(stretch, name).tolist() == [getattr(link, name) for link in twin.links]
        for name in ("wire_bytes", "waited"):
            expected = np.array([getattr(link, name) for link in twin.links])
            unit = tick if name == "waited" else 1.0
            np.testing.assert_allclose(getattr(stretch, name), expected * unit, 1e-12)
        fifos = twin.nodes.fifos
        assert stretch.fifo_max_edges.tolist() == [fifo.most for fifo in fifos]
        stays = [fifo.stay * tick for fifo in fifos]
        np.testing.assert_allclose(stretch.fifo_stay, stays, 1e-12)
        # FIFOs that take from one queue are counted at the first.
        together = torus.network.fifos if torus.network.fifo_rule == "first_free" else 1
        waited = np.zeros(len(fifos))
        for number, fifo in enumerate(fifos):
            waited[number - number % together] += fifo.waited * tick
        np.testing.assert_allclose(stretch.fifo_waited, waited, 1e-12)
        assert all(link.behind == 0 for link in twin.links)
        assert all(buffer.room == buffer.size for link in twin.links for buffer in link.buffers)
