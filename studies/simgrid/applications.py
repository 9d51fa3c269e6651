"""The captured applications under the same mappings in both engines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import toruscast as tc
from toruscast import datasets
from toruscast.simulation import simulate_flows
from toruscast.training import rcc_told_apart

from ..study import Findings, Inputs, Target
from .engine import Engine
from .networks import links_alone, variants, whole

SHAPES: dict[str, tuple[int, ...]] = {
    "lammps-lj-64": (4, 4, 4),
    "lammps-droplet-128": (8, 4, 4),
    "espresso-si-64": (4, 4, 4),
    "lammps-salt-64": (4, 4, 4),
    "lammps-lj-512": (8, 8, 8),
}
N_MAPPINGS = 24
APART = 0.05
GOAL = 0.95
ALIKE, WHOLE, REVERSED, PACKETS = "links alone", "whole machine", "X last", "packets"


@dataclass(frozen=True)
class Case:
    """An application on a torus, and its mappings."""

    name: str
    comm: tc.CommGraph
    mappings: list[tc.TaskMapping]

    @staticmethod
    def from_name(name: str) -> Case:
        """Return the traffic of one iteration and a sample of mappings."""
        steps = datasets.provenance(name)["iterations"]
        comm = datasets.load(name).scaled(1 / steps)
        torus = whole(SHAPES[name])
        return Case(name, comm, tc.strategies.sample(comm, torus, n=N_MAPPINGS, seed=1))


def run(inputs: Inputs) -> Findings:
    """Simulate every mapping in both engines and compare the order of the times."""
    rows, each = [], []
    for name, shape in SHAPES.items():
        case = Case.from_name(name)
        engine = Engine.from_torus(links_alone(shape), inputs.work)
        tori = variants(shape)
        turned = tc.Torus(
            shape,
            bandwidth=tori[ALIKE].bandwidth,
            tie_break="simgrid",
            routing_order=range(len(shape))[::-1],
        )
        tori[REVERSED] = turned.with_network(**vars(tori[ALIKE].network))
        work = Parallel(n_jobs=inputs.n_jobs, prefer="threads")
        theirs = np.array(work(delayed(engine.time)(case.comm, m) for m in case.mappings))
        ours = {
            what: np.array(work(delayed(_flow_time)(case.comm, torus, m) for m in case.mappings))
            for what, torus in tori.items()
        }
        ours[PACKETS] = np.array(
            work(delayed(_packet_time)(case.comm, tori[WHOLE], m) for m in case.mappings)
        )
        rows.append(
            {"application": name, "slowest / fastest": theirs.max() / theirs.min()}
            | {what: rcc_told_apart(theirs, times, APART) for what, times in ours.items()}
            | {"median ratio": float(np.median(ours[ALIKE] / theirs))}
        )
        seconds = pd.DataFrame({"SimGrid": theirs, **ours})
        names = [m.name for m in case.mappings]
        each.append(seconds.assign(application=name, mapping=names))
    table = pd.DataFrame(rows)
    worst = table.drop(columns=["application", "slowest / fastest", "median ratio"]).min()
    targets = [
        Target(f"RCC of pairs more than 5 % apart, links alone, {row.application}", rcc, GOAL)
        for row, rcc in zip(table.itertuples(), table[ALIKE], strict=True)
    ]
    return Findings(
        f"{N_MAPPINGS} mappings of each application are simulated. The table has the RCC of our "
        "times over the pairs whose times in SimGrid differ by more than 5 %. If we model only "
        f"the links (*links alone*), as SimGrid does, RCC is at least {worst[ALIKE]:.3f}. Each of "
        "the next columns adds one effect that SimGrid does not model. *whole machine* adds all "
        f"of them ({worst[WHOLE]:.3f} or more), and *packets* also has finite buffers "
        f"({worst[PACKETS]:.3f} or more). *X last* routes the dimensions in the opposite order, "
        "as if our node numbers were SimGrid's host numbers. Its RCC falls to "
        f"{worst[REVERSED]:.3f}. *Median ratio* is our time with links alone divided by SimGrid's "
        "time, which is quantised in steps of 4 % of the time of a typical message.",
        {"applications": table, "times": pd.concat(each, ignore_index=True)},
        {"RCC of our times against SimGrid's": table.round(3)},
        tuple(targets),
    )


def _flow_time(comm: tc.CommGraph, torus: tc.Torus, mapping: tc.TaskMapping) -> float:
    return simulate_flows(comm, torus, mapping).time


def _packet_time(comm: tc.CommGraph, torus: tc.Torus, mapping: tc.TaskMapping) -> float:
    return tc.simulate(comm, torus, mapping, error=0.03).time
