"""Trees as plain arrays and back, so that a model file holds numbers only."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import ExtraTreeRegressor
from sklearn.tree._tree import Tree

from toruscast.errors import InputError

MAX_TREES = 10_000
"""Most trees of a model file."""
_LEAF = -1
FOREST_ARRAYS = {
    "tree_size": "i8",  # nodes of each tree
    "tree_left": "i4",  # children, counted from the tree's first node; -1 in a leaf
    "tree_right": "i4",
    "tree_feature": "i4",
    "tree_threshold": "f8",
    "tree_value": "f8",
}
"""Names and types of the arrays of a forest."""


def forest_to_arrays(forest: ExtraTreesRegressor) -> dict[str, NDArray[Any]]:
    """Return the nodes of all trees, one after the other."""
    trees = [estimator.tree_ for estimator in forest.estimators_]
    columns = {
        "tree_size": [[tree.node_count] for tree in trees],
        "tree_left": [tree.children_left for tree in trees],
        "tree_right": [tree.children_right for tree in trees],
        "tree_feature": [np.maximum(tree.feature, 0) for tree in trees],
        "tree_threshold": [tree.threshold for tree in trees],
        "tree_value": [tree.value.ravel() for tree in trees],
    }
    return {
        name: np.concatenate(columns[name]).astype(kind) for name, kind in FOREST_ARRAYS.items()
    }


def forest_from_arrays(arrays: dict[str, NDArray[Any]], n_features: int) -> ExtraTreesRegressor:
    """Return the forest of `FOREST_ARRAYS`, one-dimensional; only its predictions are restored.

    The trees walk their nodes without looking, so each one is checked here.

    Raises
    ------
    InputError
        If the nodes are not those of binary trees over ``n_features`` features.
    """
    size = arrays["tree_size"]
    n_nodes = arrays["tree_left"].size
    if not size.size or size.min() < 1 or size.max() > n_nodes or size.sum() != n_nodes:
        raise InputError("bad tree sizes in a model file", expected=f"a sum of {n_nodes}")
    if any(arrays[name].size != n_nodes for name in FOREST_ARRAYS if name != "tree_size"):
        raise InputError("node arrays of a model file differ in length")
    left, right = arrays["tree_left"], arrays["tree_right"]
    start = np.repeat(np.cumsum(size) - size, size)
    own, end = np.arange(n_nodes) - start, np.repeat(size, size)
    leaf = (left == _LEAF) & (right == _LEAF)
    # Children stand after their parent, so that every walk ends.
    inner = (left > own) & (left < end) & (right > own) & (right < end)
    feature = (arrays["tree_feature"] >= 0) & (arrays["tree_feature"] < n_features)
    finite = np.isfinite(arrays["tree_threshold"]) & np.isfinite(arrays["tree_value"])
    bad = np.flatnonzero(~((leaf | inner) & feature & finite))
    if bad.size:
        raise InputError(f"bad tree node {bad[0]} in a model file")
    if size.size > MAX_TREES:
        raise InputError("too many trees in a model file", found=size.size, expected=MAX_TREES)
    splits = np.cumsum(size)[:-1]
    columns = {
        name: np.split(arrays[name], splits) for name in FOREST_ARRAYS if name != "tree_size"
    }
    forest = ExtraTreesRegressor(size.size)
    # Fitting one costs more than all that is done with a tree.
    pattern = ExtraTreeRegressor().fit(np.zeros((1, n_features)), np.zeros(1))
    forest.estimators_ = [
        _tree({name: parts[i] for name, parts in columns.items()}, n_features, pattern)
        for i in range(size.size)
    ]
    forest.n_features_in_ = n_features
    forest.n_outputs_ = 1
    return forest


def _tree(
    columns: dict[str, NDArray[Any]], n_features: int, pattern: ExtraTreeRegressor
) -> ExtraTreeRegressor:
    """Return a scikit-learn tree over checked nodes."""
    model = copy(pattern)
    nodes = np.zeros(columns["tree_left"].size, dtype=model.tree_.__getstate__()["nodes"].dtype)
    leaf = columns["tree_left"] == _LEAF
    nodes["left_child"], nodes["right_child"] = columns["tree_left"], columns["tree_right"]
    nodes["feature"] = np.where(leaf, -2, columns["tree_feature"])
    nodes["threshold"] = columns["tree_threshold"]
    nodes["n_node_samples"], nodes["weighted_n_node_samples"] = 1, 1.0
    # A tree takes its state once only: a fitted one would keep its memory, too small for the nodes.
    model.tree_ = Tree(n_features, np.ones(1, dtype=np.intp), 1)
    model.tree_.__setstate__(
        {
            "max_depth": nodes.size,
            "node_count": nodes.size,
            "nodes": nodes,
            "values": columns["tree_value"].reshape(-1, 1, 1).copy(),
        }
    )
    return model
