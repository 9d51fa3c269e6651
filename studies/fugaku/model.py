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
# Eight nodes do not show either what the bine library does for each of many tasks. Cycles of the
# processor are assumed for that, of 0.5 ns, by its source and the A64FX Microarchitecture Manual:
# 20 for an entry of a table (additions, a branch, two stores), 60 where it evicts a line of the
# level 1 cache (47 to get another from level 2, 12 to move both), 25 for a division (9 to 41), 20
# for a block that is looked at and moved, 100 for a rank's place in the tree (some 120 operations);
# 47 to come to another place in the level 2 cache, and 200 in memory. To hand a block to the
# network takes as long as a put (Ajima et al., "The Tofu interconnect D", CLUSTER'18).
ASSUMED = {
    "entries": 10e-9,
    "evictions": 30e-9,
    "divisions": 12.5e-9,
    "blocks": 10e-9,
    "ranks": 50e-9,
    "near": 23.5e-9,
    "far": 100e-9,
    "posts": 0.49e-6,
}

LAYERS = ("utofu", "fjmpi", "trees")
# Over MPI the library's messages are those of Fujitsu MPI.
_LIKE = {"mpi": "fjmpi"}
# Name, unit and value from which the fit starts: once, and for each layer.
_ONCE = {
    "link bandwidth": ("GB/s", 6.3),
    "start of a second thread": ("us", 10.0),
    "threads, power of the further ports": ("", 0.6),
    "copy": ("ns/B", 0.04),
    "copy, power of the ports that share it": ("", 0.5),
    "word that a buffer is free": ("us", 2.0),
    "timer of a step": ("us", 5.0),
    "wait for a segment": ("us", 1.0),
    "further message of MPI": ("us", 0.5),
    "start of all cores": ("us", 10.0),
    "sum by all cores": ("ns/B", 0.01),
}
_LAYERED = {
    "setup": ("us", 3.0),
    "overhead a round": ("us", 2.0),
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
            *ASSUMED,
            "nbytes",
            "hops",
            "ports",
            "rounds",
            "copied",
            "notices",
            "swaps",
            "timers",
            "waits",
            "further",
            "shared",
            "forks",
            "chunks",
            "gather_rounds",
            "gather_hops",
        )
        column = {name: table[name].to_numpy(dtype=np.float64) for name in names}
        self.column = column
        self.carried = table[network].to_numpy() * column["nbytes"] + table["surplus"].to_numpy()
        self.gathered = (table["gathered"] * table["addresses"]).to_numpy(dtype=np.float64)
        self.added = table["added"].to_numpy() * column["nbytes"]
        # Ports that work at the same time.
        self.lanes = np.where(table["in_turn"], 1.0, column["ports"])
        self.layer = table["layer"].replace(_LIKE).map(LAYERS.index).to_numpy()
        # Only the bine library over uTofu drives its ports in software, each with a thread.
        threads = np.where(self.layer == LAYERS.index("utofu"), self.lanes - 1, 0.0)
        self.log_threads = np.log(threads, where=threads > 0, out=np.full(threads.size, -np.inf))

    def seconds(self, shared: Floats, software: Floats, local: Floats) -> Floats:
        once = dict(zip(_ONCE, shared[: len(_ONCE)], strict=True))
        by_layer = shared[len(_ONCE) :].reshape(len(_LAYERED), len(LAYERS))
        layered = by_layer[:, self.layer]
        column, rate = self.column, once["link bandwidth"] * 1e9
        threads = np.exp(once["threads, power of the further ports"] * self.log_threads)
        overhead = layered[0] + once["start of a second thread"] * threads
        overhead += _rounds(layered, column["rounds"], self.carried)
        overhead += once["further message of MPI"] * column["further"]
        overhead += once["wait for a segment"] * column["waits"]
        beside = once["word that a buffer is free"] * column["notices"]
        beside += once["timer of a step"] * column["timers"]
        beside += once["further message of MPI"] * column["swaps"]
        # Addresses are gathered by MPI, with what that takes.
        mpi = by_layer[:, LAYERS.index("fjmpi")]
        gather = mpi[0] + _rounds(mpi, column["gather_rounds"], self.gathered)
        gather = gather * 1e-6 + HOP_LATENCY * column["gather_hops"] + self.gathered / rate
        before = np.where(self.gathered > 0, gather, 0.0)
        before += sum(seconds * column[name] for name, seconds in ASSUMED.items())
        sums = layered[4] * (self.added - column["shared"])
        sums += once["sum by all cores"] * column["shared"]
        work = local * sums * 1e-9 + once["start of all cores"] * 1e-6 * column["forks"]
        left = _exposed(work, self.added / self.lanes / rate, column["chunks"])
        sharing = column["ports"] ** once["copy, power of the ports that share it"]
        memory = left + local * once["copy"] * 1e-9 * column["copied"] / sharing
        network = self.carried / rate + HOP_LATENCY * column["hops"]
        return np.asarray(network + before + (software * overhead + beside) * 1e-6 + memory)


def _exposed(work: Floats, wire: Floats, chunks: Floats) -> Floats:
    """Seconds of work that are left when the parts of a message are done as they come in."""
    return np.asarray(np.maximum(work / chunks, work - wire * (1 - 1 / chunks)))


def _rounds(layered: Floats, rounds: Floats, carried: Floats) -> Floats:
    """Microseconds of the rounds, with the handshake that grows with the length of messages."""
    length = carried / np.maximum(rounds, 1.0)
    return np.asarray(rounds * (layered[1] + layered[2] * length / (length + layered[3] * 1e3)))
