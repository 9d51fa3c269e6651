"""How forecasts improve with the samples learned from, and what they say of samples held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_predict

from toruscast.training.predictor.predictor import TimePredictor
from toruscast.training.samples._table import features_only

from .evaluate import PUBLISHED_SHARE, repeated_splits

_FOLDS = 5
_SPLITS = 6
_SHARES = (PUBLISHED_SHARE / 4, PUBLISHED_SHARE / 2, PUBLISHED_SHARE)


def held_out(samples: pd.DataFrame, model: TimePredictor) -> NDArray[np.float64]:
    """Return what a model like this says of each sample when a fifth with it is kept from it.

    Seconds, ``(n_samples,)``.

    Examples
    --------
    >>> table = pd.DataFrame({"max_bytes": np.arange(30.0), "time": 1e-6 * np.arange(1, 31)})
    >>> held_out(table, TimePredictor(["max_bytes"], n_estimators=20)).shape
    (30,)
    """
    fewer = clone(model).set_params(calibration_folds=0)
    folds = KFold(min(_FOLDS, len(samples)), shuffle=True, random_state=0)
    said = cross_val_predict(fewer, features_only(samples), samples["time"], cv=folds)
    return np.asarray(said, dtype=np.float64)


def learning_curve(samples: pd.DataFrame, model: TimePredictor) -> pd.DataFrame:
    """Return the RCC of a model like this that learns from fewer samples.

    Parameters
    ----------
    samples : DataFrame
        Features and the column ``time``.
    model : TimePredictor

    Returns
    -------
    DataFrame
        A row a share: ``n_train``, ``rcc`` (mean over the splits), ``low`` and ``high`` (least and
        largest).

    Raises
    ------
    InputError
        If there are too few samples to keep two on both sides.

    Examples
    --------
    >>> table = pd.DataFrame({"max_bytes": np.arange(30.0), "time": 1e-6 * np.arange(1, 31)})
    >>> learning_curve(table, TimePredictor(["max_bytes"], n_estimators=20))["n_train"].tolist()
    [5, 10, 20]
    """
    rows = []
    for share in _SHARES:
        scores = repeated_splits(samples, model, n_splits=_SPLITS, train_share=share)
        rcc = scores["rcc"].dropna()
        n_train = int(scores["n_train"].iloc[0])
        rows.append({"n_train": n_train, "rcc": rcc.mean(), "low": rcc.min(), "high": rcc.max()})
    return pd.DataFrame(rows)
