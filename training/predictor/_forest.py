"""The trees of a model as plain arrays: what a file holds and a forecast walks through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import kernel
from toruscast.errors import InputError

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor

MAX_TREES = 10_000
"""Most trees of a model file."""
_LEAF = -1
FOREST_ARRAYS = {
    "tree_size": "i8",
    "tree_left": "i4",
    "tree_right": "i4",
    "tree_feature": "i4",
    "tree_threshold": "f8",
    "tree_value": "f8",
}
"""Names and types of the arrays of a `Forest` in a file, in the order of its fields."""


class Forest(NamedTuple):
    """Binary regression trees, the nodes of one after those of the other.

    Attributes
    ----------
    size : ndarray of int64, shape (n_trees,)
        Nodes of each tree.
    left, right : ndarray of int32, shape (n_nodes,)
        Children, counted from the tree's first node; -1 in a leaf.
    feature : ndarray of int32, shape (n_nodes,)
        Column that decides; those of at most ``threshold`` go left.
    threshold, value : ndarray of float64, shape (n_nodes,)
    """

    size: NDArray[np.int64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]

    @classmethod
    def of(cls, forest: ExtraTreesRegressor) -> Self:
        """Return the trees of a fitted forest of scikit-learn."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        columns = (
            [[tree.node_count] for tree in trees],
            [tree.children_left for tree in trees],
            [tree.children_right for tree in trees],
            [np.maximum(tree.feature, 0) for tree in trees],
            [tree.threshold for tree in trees],
            [tree.value.ravel() for tree in trees],
        )
        kinds = FOREST_ARRAYS.values()
        return cls(*(np.concatenate(c).astype(k) for c, k in zip(columns, kinds, strict=True)))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the forest of `FOREST_ARRAYS` of finite numbers, those of the nodes of one size.

        A forecast walks through the nodes without looking, so each one is checked here.

        Raises
        ------
        InputError
            If the nodes are not those of binary trees.
        """
        trees = cls(*(arrays[name] for name in FOREST_ARRAYS))
        size, n_nodes = trees.size, trees.left.size
        if size.max() > n_nodes or size.sum() != n_nodes:
            raise InputError("bad tree sizes in a model file", expected=f"a sum of {n_nodes}")
        left, right = trees.left, trees.right
        start = np.repeat(np.cumsum(size) - size, size)
        own, end = np.arange(n_nodes) - start, np.repeat(size, size)
        leaf = (left == _LEAF) & (right == _LEAF)
        # Children stand after their parent, so that every walk ends.
        inner = (left > own) & (left < end) & (right > own) & (right < end)
        bad = np.flatnonzero(~(leaf | inner))
        if bad.size:
            raise InputError(f"bad tree node {bad[0]} in a model file")
        if size.size > MAX_TREES:
            raise InputError("too many trees in a model file", found=size.size, expected=MAX_TREES)
        return trees

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the `FOREST_ARRAYS` of a file."""
        return dict(zip(FOREST_ARRAYS, self, strict=True))

    def predict(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each tree says of each row of features, shape ``(n_trees, n)``.

        Features are compared in single precision, as scikit-learn's trees learn from them.
        """
        single = np.ascontiguousarray(matrix, dtype=np.float32)
        values = np.empty((self.size.size, len(single)))
        _walk(*self, single, values)
        return values


@kernel
def _walk(
    size: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    value: NDArray[np.float64],
    matrix: NDArray[np.float32],
    values: NDArray[np.float64],
) -> None:
    """Follow each row of ``matrix`` from the root of each tree to a leaf."""
    root = 0
    for tree in range(size.size):
        for row in range(matrix.shape[0]):
            node = root
            while left[node] >= 0:
                is_left = matrix[row, feature[node]] <= threshold[node]
                node = root + (left[node] if is_left else right[node])
            values[tree, row] = value[node]
        root += size[tree]
