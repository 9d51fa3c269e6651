"""Time of a collective as network, software and local memory; constants fitted to measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from toruscast.mapping.machines import tofu_d

Floats = NDArray[np.float64]

# On 2x2x2 every way is one to three hops long: their latency cannot be told from the overhead of a
# round there, and is that of the machine's preset.
HOP_LATENCY = tofu_d().network.hop_latency
# Eight nodes do not show either what the bine library's table of blocks costs: 20 cycles of the
# processor (2 GHz) an entry are assumed, for a division, a branch and the copy that it directs.
ENTRY = 10e-9

LAYERS = ("utofu", "mpi", "fjmpi", "trees")
# Name, unit and value from which the fit starts: once, and for each layer.
_ONCE = {
    "link bandwidth": ("GB/s", 6.3),
    "start of a second thread": ("us", 10.0),
    "threads, power of the further ports": ("", 0.6),
    "copy": ("ns/B", 0.04),
    "copy, power of the ports that share it": ("", 0.5),
    "word that a buffer is free": ("us", 2.0),
}
_LAYERED = {
    "setup": ("us", 3.0),
    "overhead a round": ("us", 2.0),
    "overhead a further message": ("us", 0.5),
    "handshake of a long message": ("us", 5.0),
    "length at half of the handshake": ("KB", 16.0),
    "reduction": ("ns/B", 0.05),
}
_SHARED = _ONCE | {f"{name}, {layer}": of for name, of in _LAYERED.items() for layer in LAYERS}
# How far the shared constants and the factors of an implementation may go from where they start,
# in units of the relative error of one measurement.
_HOLD_SHARED, _HOLD_FACTOR = 0.05, 0.3


@dataclass(frozen=True)
class Constants:
    """Constants of the model.

    Attributes
    ----------
    shared : dict of str to float
        Of all implementations, by name.
    software, local : dict of str to float
        Factor of each implementation's software overhead and of its reductions and copies.
    """

    shared: dict[str, float]
    software: dict[str, float]
    local: dict[str, float]

    def table(self) -> pd.DataFrame:
        """The shared constants with their units."""
        return pd.DataFrame(
            [(name, self.shared[name], unit) for name, (unit, _) in _SHARED.items()],
            columns=["constant", "value", "unit"],
        )


def stands_for(code: str) -> str:
    """Return the implementation whose factors another takes that was not run to calibrate.

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
        Column with the bytes that the network takes time for.

    Notes
    -----
    Least squares of the logarithms of the ratio, large ones damped; all constants positive. The
    factors of an implementation are drawn to 1, so that they explain what the shared ones cannot.
    """
    codes = sorted(table["code"].unique())
    start = np.log([value for _, value in _SHARED.values()])
    observed = np.log(table["time"].to_numpy())
    own = table["code"].map({code: number for number, code in enumerate(codes)}).to_numpy()
    terms = _Terms(table, network)

    def residuals(x: Floats) -> Floats:
        shared, software, local = np.split(x, [start.size, start.size + len(codes)])
        time = terms.seconds(np.exp(shared), np.exp(software)[own], np.exp(local)[own])
        held = _HOLD_SHARED * (shared - start)
        return np.concatenate(
            [np.log(time) - observed, held, _HOLD_FACTOR * software, _HOLD_FACTOR * local]
        )

    first = np.concatenate([start, np.zeros(2 * len(codes))])
    x = least_squares(residuals, first, loss="soft_l1", f_scale=0.3, max_nfev=300).x
    shared, software, local = np.split(np.exp(x), [start.size, start.size + len(codes)])
    return Constants(
        dict(zip(_SHARED, shared.tolist(), strict=True)),
        dict(zip(codes, software.tolist(), strict=True)),
        dict(zip(codes, local.tolist(), strict=True)),
    )


def predict(table: pd.DataFrame, constants: Constants, network: str = "simulated") -> Floats:
    """Return the seconds that each row of a table should take, shape (n_rows,)."""
    like = table["code"].map(stands_for)
    return _Terms(table, network).seconds(
        np.array([constants.shared[name] for name in _SHARED]),
        np.asarray(like.map(constants.software).fillna(1.0), dtype=np.float64),
        np.asarray(like.map(constants.local).fillna(1.0), dtype=np.float64),
    )


class _Terms:
    """What the constants multiply."""

    def __init__(self, table: pd.DataFrame, network: str) -> None:
        names = (
            "nbytes", "hops", "ports", "rounds", "copied", "notices", "entries",
            "gather_rounds", "gather_hops",
        )  # fmt: skip
        column = {name: table[name].to_numpy(dtype=np.float64) for name in names}
        self.column = column
        self.carried = table[network].to_numpy() * column["nbytes"]
        self.gathered = (table["gathered"] * table["addresses"]).to_numpy(dtype=np.float64)
        self.added = table["added"].to_numpy() * column["nbytes"]
        self.layer = table["layer"].map(LAYERS.index).to_numpy()
        # Each round's overhead has its first message of every port in it.
        messages = (table["messages"] + table["pieces"]).to_numpy(dtype=np.float64)
        self.more = np.maximum(messages - column["rounds"] * column["ports"], 0.0)
        # Only the bine library over uTofu drives its ports in software, each with a thread.
        threads = np.where(self.layer == LAYERS.index("utofu"), column["ports"] - 1, 0.0)
        self.log_threads = np.log(threads, where=threads > 0, out=np.full(threads.size, -np.inf))

    def seconds(self, shared: Floats, software: Floats, local: Floats) -> Floats:
        bandwidth, thread, thread_power, copy, power, notice = shared[: len(_ONCE)]
        by_layer = shared[len(_ONCE) :].reshape(len(_LAYERED), len(LAYERS))
        layered = by_layer[:, self.layer]
        column, rate = self.column, bandwidth * 1e9
        overhead = layered[0] + thread * np.exp(thread_power * self.log_threads)
        overhead += _rounds(layered, column["rounds"], self.carried) + layered[2] * self.more
        overhead = software * overhead + notice * column["notices"]
        # Addresses are gathered by MPI, with what that takes.
        mpi = by_layer[:, LAYERS.index("fjmpi")]
        gather = mpi[0] + _rounds(mpi, column["gather_rounds"], self.gathered)
        gather = gather * 1e-6 + HOP_LATENCY * column["gather_hops"] + self.gathered / rate
        memory = layered[5] * self.added + copy * column["copied"] / column["ports"] ** power
        network = self.carried / rate + HOP_LATENCY * column["hops"]
        before = np.where(self.gathered > 0, gather, 0.0) + ENTRY * column["entries"]
        return np.asarray(network + before + overhead * 1e-6 + local * memory * 1e-9)


def _rounds(layered: Floats, rounds: Floats, carried: Floats) -> Floats:
    """Microseconds of the rounds, with the handshake that grows with the length of messages."""
    length = carried / np.maximum(rounds, 1.0)
    return np.asarray(rounds * (layered[1] + layered[3] * length / (length + layered[4] * 1e3)))
