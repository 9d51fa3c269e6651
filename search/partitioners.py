"""Mappings by other programs, where they are installed: Scotch and Mt-KaHyPar."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Workload
from toruscast.mapping.allocation import Allocation

# Debian calls it by the second name.
_SCOTCH = ("scotch_gmap", "gmap")
# Weights are whole numbers, whose sum must fit into 31 bits.
_MOST = 2.0**29
# Runs of a program, each with the tasks numbered anew.
RUNS = 20
_STRATEGIES = ("-cq", "-cs")


def placed_by(
    programs: Sequence[str], workload: Workload, allocation: Allocation, seed: int, runs: int = 4
) -> list[TaskMapping]:
    """Return what other programs make of it, confined to the allocation.

    Raises
    ------
    InputError
        If a program is not known or not installed.
    """
    found = []
    for program in programs:
        run = _PROGRAMS.get(program)
        if run is None:
            raise InputError(
                "unknown program", found=program, expected=" or ".join(sorted(_PROGRAMS))
            )
        for number in range(runs):
            node = run(workload, allocation, seed + number)
            mapping = TaskMapping(node, allocation.torus, name=f"{program}@{number + 1}")
            found.append(allocation.confine(mapping))
    return found


def _weights(workload: Workload) -> sparse.csr_array:
    """Whole weights of the edges between tasks, both ways."""
    both = workload.total.without_self_messages().to_scipy()
    both = sparse.csr_array(both + both.T)
    scale = max(float(both.sum()) / _MOST, 1.0 if _is_whole(both.data) else 1e-300)
    both.data = np.maximum(np.rint(both.data / scale), 1).astype(np.int64)
    return both


def _is_whole(values: NDArray[Any]) -> bool:
    return bool((values == np.rint(values)).all())


def _scotch(workload: Workload, allocation: Allocation, seed: int) -> NDArray[np.int64]:
    """Node of each task by ``gmap``, which maps onto the whole torus."""
    program = next(filter(None, map(shutil.which, _SCOTCH)), None)
    if program is None:
        raise InputError("Scotch is not installed", found="no gmap", expected="scotch_gmap or gmap")
    torus = allocation.torus
    new = np.random.default_rng(seed).permutation(workload.n_tasks)
    weights = _weights(workload).tocoo()
    shape = weights.shape
    renamed = sparse.csr_array((weights.data, (new[weights.row], new[weights.col])), shape=shape)
    target = f"torusXD {torus.ndim} {' '.join(map(str, torus.shape[::-1]))}\n"
    if not all(torus.wrap):
        target = target.replace("torusXD", "meshXD")
    # The target comes through a pipe, the graph on stdin: nothing is written anywhere.
    read, write = os.pipe()
    try:
        os.write(write, target.encode())
        os.close(write)
        done = subprocess.run(
            [program, _STRATEGIES[seed % 2], "-", f"/dev/fd/{read}", "-"],
            input=_scotch_graph(renamed),
            capture_output=True,
            text=True,
            pass_fds=(read,),
            check=False,
        )
    finally:
        os.close(read)
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    if done.returncode or len(lines) != workload.n_tasks:
        said = (done.stderr.strip().splitlines() or ["no mapping"])[0]
        raise InputError("Scotch failed", found=said, expected="a mapping of every task")
    pairs = np.array(lines, dtype=np.int64)
    node = np.empty(workload.n_tasks, dtype=np.int64)
    node[pairs[:, 0]] = pairs[:, 1]
    return node[new]


def _scotch_graph(weights: sparse.csr_array) -> str:
    n = weights.shape[0]
    lines = [f"0\n{n} {weights.nnz}\n0 010"]
    for task in range(n):
        part = slice(weights.indptr[task], weights.indptr[task + 1])
        pairs = zip(weights.data[part].tolist(), weights.indices[part].tolist(), strict=True)
        words = [f"{weight} {partner}" for weight, partner in pairs]
        lines.append(" ".join([str(len(words)), *words]))
    return "\n".join(lines) + "\n"


def _mt_kahypar(workload: Workload, allocation: Allocation, seed: int) -> NDArray[np.int64]:
    """Node of each task by Mt-KaHyPar's mapping onto a graph of the nodes that are ours."""
    try:
        mtkahypar = importlib.import_module("mtkahypar")
    except ImportError:
        raise InputError(
            "Mt-KaHyPar is not installed", found="no module mtkahypar", expected="it on the path"
        ) from None
    torus = allocation.torus
    mtkahypar.set_seed(seed)
    program = _initialized(mtkahypar)
    context = program.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    first, partner = [], []
    for node, port in zip(*np.nonzero(torus.neighbors >= 0), strict=True):
        there = int(torus.neighbors[node, port])
        if node < there:
            first.append(int(node))
            partner.append(there)
    links = sorted(set(zip(first, partner, strict=True)))
    target = program.create_target_graph(
        context, torus.n_nodes, len(links), links, [1] * len(links)
    )
    context.set_mapping_parameters(torus.n_nodes, 0.03)
    upper = sparse.triu(_weights(workload), k=1).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    graph = program.create_graph(
        context,
        workload.n_tasks,
        len(edges),
        edges,
        [1] * workload.n_tasks,
        upper.data.tolist(),
    )
    placed = graph.map_onto_graph(target, context)
    return np.array([placed.block_id(task) for task in range(workload.n_tasks)])


_KEPT: dict[str, Any] = {}


def _initialized(mtkahypar: Any) -> Any:
    """The program, which starts its threads once."""
    if "program" not in _KEPT:
        _KEPT["program"] = mtkahypar.initialize(os.cpu_count() or 1)
    return _KEPT["program"]


_PROGRAMS = {"scotch": _scotch, "mt-kahypar": _mt_kahypar}
