"""Communication graphs from NetworkX, SciPy and pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from toruscast.errors import InputError
from toruscast.validation import whole_array

from .comm_graph import CommGraph, sum_edges

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from scipy import sparse


def from_networkx(graph: nx.Graph[Any], weight: str = "nbytes", **options: Any) -> CommGraph:
    """Return the communication graph of a NetworkX graph whose nodes are 0 to n - 1.

    Parameters
    ----------
    graph : networkx.Graph or DiGraph
        An undirected edge counts as one message flow each way.
    weight : str
        Edge attribute that holds the bytes; ``n_messages`` is read where present, else 1.
    **options
        ``grid`` and ``name`` of `CommGraph`.

    Raises
    ------
    InputError
        If it is no such graph, the nodes are not numbered 0 to n - 1, or an edge lacks the weight.

    Examples
    --------
    >>> import networkx as nx
    >>> from_networkx(nx.DiGraph([(0, 1, {"nbytes": 8})]))
    CommGraph(2 tasks, 1 edge, 8 bytes, 1 message)
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError("bad graph", found=type(graph).__name__, expected="a NetworkX graph")
    if set(graph.nodes) != set(range(len(graph))):
        raise InputError("bad node labels", found=list(graph.nodes)[:5], expected="0 to n - 1")
    directed = graph if graph.is_directed() else graph.to_directed()
    rows = []
    for s, d, data in directed.edges(data=True):
        if weight not in data:
            raise InputError(f"edge without '{weight}'", found=(s, d))
        rows.append((s, d, data[weight], data.get("n_messages", 1)))
    src, dst, nbytes, messages = zip(*rows, strict=True) if rows else ((), (), (), ())
    build = sum_edges if directed.is_multigraph() else CommGraph
    return build(len(graph), src, dst, nbytes, messages, **options)


def from_scipy(
    nbytes: sparse.sparray | sparse.spmatrix,
    n_messages: sparse.sparray | sparse.spmatrix | None = None,
    **options: Any,
) -> CommGraph:
    """Return the communication graph of a square sparse matrix of bytes, source by destination.

    Duplicate entries of a COO matrix are added up, as SciPy does. An edge is every stored entry of
    either matrix.

    Raises
    ------
    InputError
        If a matrix is not square or the two differ in shape.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> from_scipy(coo_array(([5.0], ([0], [1])), shape=(2, 2)))
    CommGraph(2 tasks, 1 edge, 5 bytes, 1 message)
    """
    first = _coo(nbytes)
    if first.ndim != 2 or first.shape[0] != first.shape[1]:
        raise InputError("matrix is not square", found=first.shape)
    first.sum_duplicates()
    n_tasks = first.shape[0]
    if n_messages is None:
        return CommGraph(n_tasks, first.row, first.col, first.data, **options)
    second = _coo(n_messages)
    if second.shape != first.shape:
        raise InputError("matrices differ in shape", found=second.shape, expected=first.shape)
    none = np.zeros
    return sum_edges(
        n_tasks,
        np.concatenate([first.row, second.row]),
        np.concatenate([first.col, second.col]),
        np.concatenate([first.data, none(second.nnz)]),
        np.concatenate([none(first.nnz), second.data]),
        **options,
    )


def _coo(matrix: Any) -> Any:
    from scipy import sparse

    array = sparse.coo_array(matrix)
    if array.dtype.kind not in "iufb":
        raise InputError("bad matrix", found=array.dtype, expected="numbers")
    # In the matrix's own type sums of duplicates could overflow.
    return array.astype(np.float64)


def from_pandas(table: pd.DataFrame, n_tasks: int | None = None, **options: Any) -> CommGraph:
    """Return the communication graph of a table with columns src, dst, nbytes and maybe n_messages.

    Raises
    ------
    InputError
        If it is no table, a column is missing, or a value not valid.

    Examples
    --------
    >>> import pandas as pd
    >>> from_pandas(pd.DataFrame({"src": [0], "dst": [3], "nbytes": [64]}))
    CommGraph(4 tasks, 1 edge, 64 bytes, 1 message)
    """
    if not hasattr(table, "columns"):
        raise InputError("bad table", found=type(table).__name__, expected="a DataFrame")
    missing = [column for column in ("src", "dst", "nbytes") if column not in table.columns]
    if missing:
        raise InputError("missing columns", found=list(table.columns), expected=missing)
    src, dst = whole_array(table["src"], "src"), whole_array(table["dst"], "dst")
    if n_tasks is None:
        n_tasks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
    messages = table["n_messages"] if "n_messages" in table.columns else None
    return CommGraph(n_tasks, src, dst, table["nbytes"], messages, **options)
