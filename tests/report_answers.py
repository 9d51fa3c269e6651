"""An answer of every kind that has a page, with names that no page should be built from."""

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast._mesh.traffic import MeshTraffic

HOSTILE = '<script>alert("1")</script>&\u202e]]>' + "x" * 10_000


def application():
    """A small halo, a torus, and mappings of which one has a hostile name."""
    comm = tc.patterns.halo_2d((4, 8), 4096, periodic=True)
    comm = tc.CommGraph(comm.n_tasks, comm.src, comm.dst, comm.nbytes, name=HOSTILE)
    torus = tc.Torus((4, 2, 4)).with_network(unknown_rules=())
    mappings = tc.strategies.sample(comm, torus, n=11)
    odd = tc.TaskMapping(mappings[3].node[::-1].copy(), torus, name=HOSTILE)
    return comm, torus, [odd, *mappings]


def runs(comm, torus, mappings):
    """Times of a machine that follow the simulated ones: two runs of each but the last two."""
    rng = np.random.default_rng(1)
    rows = []
    for mapping in mappings[:-2]:
        time = 3e-5 + tc.simulate(comm, torus, mapping).time
        rows += [(mapping.name, time * (1 + 0.005 * rng.normal())) for _ in range(2)]
    return pd.DataFrame(rows, columns=["mapping", "time"])


def answers():
    """Return them by the name of the kind."""
    comm, torus, mappings = application()
    times = runs(comm, torus, mappings)
    learned = tc.learn_runs(comm, torus, mappings, times, simulate=0)
    planned = tc.plan(comm, torus, mappings, times)
    quick = tc.TimePredictor("analytic", n_estimators=20, calibration_folds=0)
    trained = tc.train(comm, torus, 16, model=quick, n_splits=5)
    grid = tc.torus("tpu_v5e:4x4")
    traffic = [
        MeshTraffic("allreduce", 4e6, ("x",), name=HOSTILE),
        MeshTraffic("allgather", 1e6, ("y",)),
    ]
    return {
        "forecast": tc.rank(comm, torus, mappings, check=True, budget=1),
        "measured": tc.rank(comm, torus, mappings, times=times),
        "plan": planned,
        "first-plan": tc.plan(comm, torus, mappings),
        "mesh": tc.mesh(grid, {"x": 4, "y": 4}, traffic),
        "trained": trained,
        "learned": learned,
        "search": tc.search(comm, torus, mappings[:1], n_sweeps=1),
        "simulation": tc.simulate(comm, torus, mappings[0]),
    }
