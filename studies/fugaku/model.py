"""Time of a collective as network, software and local memory; constants fitted to measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import toruscast as tc

from ..scores import Floats, fit_constants

# On 2x2x2 every route has one to three hops, so their latency cannot be separated from the overhead
# of a round. It is taken from the preset of the machine.
HOP_LATENCY = tc.machines.tofu_d().network.hop_latency
LAYERS = ("utofu", "fjmpi", "trees")
# The library's messages over MPI are those of Fujitsu MPI.
_LIKE = {"mpi": "fjmpi"}
# Name, unit and initial value of the shared constants and of those of each layer.
_ONCE = {
    "link bandwidth": ("GB/s", 6.3),
    "thread of a further port": ("us", 5.0),
    "further message of a round": ("us", 0.5),
    "copy": ("ns/B", 0.04),
}
_LAYERED = {
    "setup": ("us", 3.0),
    "round": ("us", 2.0),
    "handshake of a long message": ("us", 5.0),
    "length at half of the handshake": ("KB", 16.0),
    "reduction": ("ns/B", 0.05),
}
_SHARED = _ONCE | {f"{name}, {layer}": of for name, of in _LAYERED.items() for layer in LAYERS}
# Strength with which the shared constants and the factors are held at their initial values, in
# units of the relative error of one measurement.
_HOLD_SHARED, _HOLD_FACTOR = 0.05, 0.3


@dataclass(frozen=True)
class Constants:
    """Constants of the model.

    Attributes
    ----------
    shared : dict of str to float
        Constants of all implementations, by name.
    software, local : dict of str to float
        Factor of each implementation's software overhead and of its reductions and copies.
    """

    shared: dict[str, float]
    software: dict[str, float]
    local: dict[str, float]

    def table(self) -> pd.DataFrame:
        """Return the shared constants with their units."""
        rows = [(name, self.shared[name], unit) for name, (unit, _) in _SHARED.items()]
        return pd.DataFrame(rows, columns=["constant", "value", "unit"])


def stands_for(code: str) -> str:
    """Return the calibrated implementation whose factors are used for another one.

    Examples
    --------
    >>> stands_for("allreduce RECDOUB-L-utofu"), stands_for("bcast default-trinaryx6")
    ('allreduce BINE-L-utofu', 'bcast default-trinaryx3')
    """
    # The same code with other partners; six trees need two links a dimension.
    return code.replace(" RECDOUB-", " BINE-").replace("x6", "x3")


def fit(table: pd.DataFrame, network: str = "simulated") -> Constants:
    """Return the constants that fit the times of a table best.

    Parameters
    ----------
    table : DataFrame
        From `tabulate`.
    network : {"simulated", "carried", "sent"}
        Column with the bytes that the network time is proportional to.

    Notes
    -----
    The factors of an implementation are held near 1, so they only explain what the shared constants
    cannot (`fit_constants`).
    """
    codes = sorted(table["code"].unique())
    start = np.array([value for _, value in _SHARED.values()])
    own = table["code"].map({code: number for number, code in enumerate(codes)}).to_numpy()
    ends = [start.size, start.size + len(codes)]

    def seconds(constants: Floats) -> Floats:
        shared, software, local = np.split(constants, ends)
        return _seconds(table, network, shared, software[own], local[own])

    hold = np.repeat([_HOLD_SHARED, _HOLD_FACTOR], [start.size, 2 * len(codes)])
    first = np.concatenate([start, np.ones(2 * len(codes))])
    found = fit_constants(seconds, first, table["time"], hold)
    shared, software, local = np.split(found, ends)
    return Constants(
        dict(zip(_SHARED, shared.tolist(), strict=True)),
        dict(zip(codes, software.tolist(), strict=True)),
        dict(zip(codes, local.tolist(), strict=True)),
    )


def predict(table: pd.DataFrame, constants: Constants, network: str = "simulated") -> Floats:
    """Return the seconds that each row of a table should take, shape (n_rows,)."""
    like = table["code"].map(stands_for)
    return _seconds(
        table,
        network,
        np.array([constants.shared[name] for name in _SHARED]),
        like.map(constants.software).fillna(1.0).to_numpy(float),
        like.map(constants.local).fillna(1.0).to_numpy(float),
    )


def _seconds(
    table: pd.DataFrame, network: str, shared: Floats, software: Floats, local: Floats
) -> Floats:
    """Seconds by the shared constants and the factors of each row's implementation."""
    bandwidth, thread, further, copy = shared[: len(_ONCE)]
    layer = table["layer"].replace(_LIKE).map(LAYERS.index).to_numpy()
    layered = shared[len(_ONCE) :].reshape(len(_LAYERED), len(LAYERS))[:, layer]
    setup, each, handshake, half, reduction = layered
    names = ("nbytes", "rounds", "messages", "hops", "ports", "added", network)
    nbytes, rounds, messages, hops, ports, added, carried = (
        table[n].to_numpy(float) for n in names
    )
    length = carried * nbytes / np.maximum(rounds, 1.0)
    # Only the bine library over uTofu drives its ports in software, each with a thread.
    threads = np.where(layer == LAYERS.index("utofu"), ports - 1, 0.0)
    overhead = setup + thread * np.sqrt(threads)
    overhead += further * np.maximum(messages - rounds, 0.0)
    overhead += rounds * (each + handshake * length / (length + half * 1e3))
    memory = local * (reduction * added + copy) * nbytes * 1e-9 / np.sqrt(ports)
    wire = carried * nbytes / (bandwidth * 1e9) + HOP_LATENCY * hops
    return np.asarray(wire + software * overhead * 1e-6 + memory)
