"""What a process of a multigrid solver does in one communication, as numbers to learn from."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError

Floats = NDArray[np.float64]

ONE_SIDED = ("S", "P")
"""Operators of no symmetric pattern: who sends to another need not receive from it."""

_PROTOCOLS = ("short", "eager", "rend")
_PLACES = ("network", "node", "socket")
_STAGES = ("n_max_l", "n_max_s", "n_max_g", "n_max_r")
_NEEDED = ("operator", "matrix", "node_aware", "n_processes", "n_active", "total_nbytes")
_COUNTS = [
    f"{what}_{protocol}_{place}"
    for what in ("n", "nbytes")
    for protocol in _PROTOCOLS
    for place in _PLACES
]
_MODEL_COLUMNS = (*_NEEDED, "n_max", *_STAGES, *_COUNTS)


def message_load(table: pd.DataFrame) -> pd.DataFrame:
    """Return messages and bytes of the busiest process, from a table of `read_amg_messages`.

    Parameters
    ----------
    table : DataFrame
        Columns as `studies.read_amg_messages` gives them.

    Returns
    -------
    DataFrame
        ``n``, messages of the busiest process, all stages of a node-aware one together; ``nbytes``
        of the busiest over all protocols and places; ``n_network`` and ``n_node`` of the messages
        that leave the node, or the socket only; ``n_all``, messages over all classes.

    Raises
    ------
    InputError
        If a column is missing or holds a value that cannot be.

    Examples
    --------
    >>> row = dict.fromkeys(_MODEL_COLUMNS, 0.0) | {"operator": "A", "n_max": 3, "n_active": 8}
    >>> table = pd.DataFrame([row | {"n_processes": 8, "n_eager_network": 2}])
    >>> message_load(table).to_dict("records")
    [{'n': 3.0, 'nbytes': 0.0, 'n_network': 2.0, 'n_node': 0.0, 'n_all': 2.0}]
    """
    values = _numbers(table)
    n_at = {place: values[_of("n", place)].sum(axis=1) for place in _PLACES}
    n_all = sum(n_at.values(), pd.Series(0.0, index=table.index))
    stages = values[list(_STAGES)].sum(axis=1)
    n = stages.where(table["node_aware"].astype(bool), values["n_max"])
    return pd.DataFrame(
        {
            # A job that did not write the most messages of a process: those of its classes.
            "n": n.where(n > 0, n_all),
            "nbytes": sum(
                (values[_of("nbytes", place)].sum(axis=1) for place in _PLACES),
                pd.Series(0.0, index=table.index),
            ),
            "n_network": n_at["network"],
            "n_node": n_at["node"],
            "n_all": n_all,
        }
    )


def amg_features(table: pd.DataFrame) -> pd.DataFrame:
    """Return the features that correct the analytic time of a communication.

    All are flags, ratios or logarithms of what one process does, so that none grows with the
    machine as such.

    Parameters
    ----------
    table : DataFrame
        Columns as `studies.read_amg_messages` gives them.

    Returns
    -------
    DataFrame
        ``node_aware, matrix, prolongation, strength`` (flags); ``messages, network_messages,
        node_messages, nbytes, message_nbytes`` (logarithms, per process); ``imbalance``, bytes of
        the busiest over those that a process sends into the network on average (logarithm);
        ``network_share`` of the messages; ``active_share`` and ``idle`` processes (logarithms);
        ``one_sided`` (flag), a vector of S or P, whose senders need not receive, and
        ``one_sided_idle``, the idle processes beside it: those that wait for nobody run ahead.

    Raises
    ------
    InputError
        If a column is missing or holds a value that cannot be.

    Examples
    --------
    >>> row = dict.fromkeys(_MODEL_COLUMNS, 0.0) | {"operator": "A", "n_max": 3, "n_active": 8}
    >>> features = amg_features(pd.DataFrame([row | {"n_processes": 8}]))
    >>> round(float(features.loc[0, "messages"]), 3)
    1.386
    """
    values, load = _numbers(table), message_load(table)
    active = values["n_active"]
    idle = np.log1p((values["n_processes"] - active).clip(lower=0))
    operator = table["operator"].astype(str)
    one_sided = (operator.isin(ONE_SIDED) & (values["matrix"] == 0)).astype(float)
    nbytes = load["nbytes"] + 8  # a double, the least that a message holds
    return pd.DataFrame(
        {
            "node_aware": table["node_aware"].astype(float),
            "matrix": table["matrix"].astype(float),
            "prolongation": (operator == "P").astype(float),
            "strength": (operator == "S").astype(float),
            "messages": np.log1p(load["n"]),
            "network_messages": np.log1p(load["n_network"]),
            "node_messages": np.log1p(load["n_node"]),
            "nbytes": np.log(nbytes),
            "message_nbytes": np.log(nbytes / (load["n_all"] + 1)),
            "imbalance": np.log(nbytes / (values["total_nbytes"] / active + 8)),
            "network_share": (load["n_network"] + 1) / (load["n_all"] + 1),
            "active_share": np.log(active / values["n_processes"]),
            "idle": idle,
            "one_sided": one_sided,
            "one_sided_idle": one_sided * idle,
        }
    ).astype(float)


def _of(what: str, place: str) -> list[str]:
    return [f"{what}_{protocol}_{place}" for protocol in _PROTOCOLS]


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """The numeric columns, zero where a job did not write them."""
    missing = [name for name in _MODEL_COLUMNS if name not in table.columns]
    if missing:
        raise InputError("column missing", expected=", ".join(missing))
    values = (
        table[[name for name in _MODEL_COLUMNS if name != "operator"]].astype(float).fillna(0.0)
    )
    if values.isin([np.inf]).to_numpy().any() or (values < 0).to_numpy().any():
        raise InputError("bad count", expected="numbers from 0 on")
    active, processes = values["n_active"], values["n_processes"]
    if ((active < 1) | (active > processes)).any():
        raise InputError("bad count of active processes", expected="1 to the number of processes")
    return values
