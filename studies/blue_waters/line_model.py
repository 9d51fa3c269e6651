"""Time of a ping-pong along a line of routers: what ranks do, and what the shared link takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

# Cray MPI on Gemini: messages below the first carry their bytes, below the second go eagerly.
PROTOCOLS = (512, 8192)
_N_LOCAL = 2 * (len(PROTOCOLS) + 1) + 2


@dataclass(frozen=True)
class LineModel:
    """Latency, bytes and queue of a rank, joined with the bandwidth of the middle link.

    Attributes
    ----------
    bandwidths : dict of str to float
        Bytes per second through the middle of the line, one way, by what was fitted apart.
    local : ndarray, shape (8,)
        Logarithms: seconds a message (3 protocols), seconds a byte (3), seconds a pair of messages
        in the queue, and how sharply the slower of rank and link takes over.
    """

    bandwidths: dict[str, float]
    local: Floats

    def predict(self, table: pd.DataFrame, by: str) -> Floats:
        """Return the times of sizes, shape (n_rows,), in seconds.

        Parameters
        ----------
        table : DataFrame
            ``n_ranks``, ``n_messages``, ``nbytes``, and the column ``by``.
        by : str
            Column that names the bandwidth.
        """
        rates = np.log(table[by].map(self.bandwidths).to_numpy(float))
        return np.exp(_log_time(self.local, rates, *_columns(table)))


def fit_line(table: pd.DataFrame, by: str, start: LineModel | None = None) -> LineModel:
    """Fit the model to measured times, with a bandwidth for each value of a column.

    Parameters
    ----------
    table : DataFrame
        ``n_ranks``, ``n_messages``, ``nbytes``, ``time`` and the column ``by``.
    by : str
    start : LineModel, optional
        Where to begin; near the solution, as for a resample, it is found sooner.

    Returns
    -------
    LineModel

    Notes
    -----
    Among equally many ranks, bytes that a rank handles and bytes on the link are in proportion:
    where both take time one after the other, only different numbers of ranks tell them apart.

    Examples
    --------
    >>> cells = [(n, 4.0**k) for n in (128, 256) for k in range(2, 12)]
    >>> table = pd.DataFrame(cells, columns=["n_ranks", "nbytes"])
    >>> table = table.assign(n_messages=1, dimension="x")
    >>> table["time"] = 4e-6 + table["n_ranks"] / 2 * table["nbytes"] / 5e9
    >>> abs(fit_line(table, "dimension").bandwidths["x"] / 5e9 - 1) < 0.02
    True
    """
    names = sorted(table[by].unique())
    which = table[by].map({name: k for k, name in enumerate(names)}).to_numpy()
    log_time = np.log(table["time"].to_numpy(float))
    columns = _columns(table)
    if start is None:
        begin = np.log([4e-6, 5e-6, 1e-5, 1e-9, 1e-9, 1e-9, 1e-8, 2.0, *[5e9] * len(names)])
    else:
        begin = np.append(start.local, np.log([start.bandwidths[name] for name in names]))

    def residuals(x: Floats) -> Floats:
        return np.asarray(_log_time(x[:_N_LOCAL], x[_N_LOCAL:][which], *columns) - log_time)

    # A sample that another job delayed counts by its distance, not by the square of it. The
    # sum is flat where a constant does not matter: a thousandth of it is as good as nothing.
    with threadpool_limits(1):  # the matrices are small: threads would wait for each other
        x = least_squares(
            residuals, begin, loss="soft_l1", f_scale=0.1, ftol=1e-5, xtol=1e-5, max_nfev=300
        ).x
    rates = np.exp(x[_N_LOCAL:])
    return LineModel(dict(zip(names, rates.tolist(), strict=True)), np.asarray(x[:_N_LOCAL]))


def _columns(table: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Messages and bytes of a rank, and bytes through the link in the middle, one way."""
    n, nbytes = table["n_messages"].to_numpy(float), table["nbytes"].to_numpy(float)
    # Every rank of a half sends all of its bytes through it.
    return n, nbytes, table["n_ranks"].to_numpy(float) / 2 * nbytes


def _log_time(
    local: Floats, log_rates: Floats, n: Floats, nbytes: Floats, crossing: Floats
) -> Floats:
    protocol = np.searchsorted(PROTOCOLS, nbytes / n, side="right")
    c = np.exp(local)
    rank = np.log(c[protocol] * n + c[3 + protocol] * nbytes + c[6] * n**2)
    link = np.log(crossing) - log_rates
    # The larger of both with a soft passage, in logarithms so that no power can overflow.
    power = 1 + c[7]
    return np.asarray(np.logaddexp(power * rank, power * link) / power, dtype=float)
