"""Candidates that a launcher's own words give: orders of ranks, and jobs on Fugaku."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.files import as_string, read_limited
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload
from toruscast.mapping.strategies.permute import job_mappings, letters_of, ordered

_MOST_BYTES = 2**28
_FUGAKU = "tofu_d"


def order_mappings(
    traffic: Workload | CommGraph, torus: Torus, tasks_per_node: int | None = None
) -> list[TaskMapping]:
    """Return the orders of ranks that the launcher of a machine offers."""
    if torus.name == _FUGAKU and torus.ndim <= 3:
        # The nodes of a job are those of the torus that it asks for.
        found = job_mappings(traffic, torus.shape)[1].values()
        return [TaskMapping(each.node, torus, name=each.name) for each in found]
    words = ["".join(letters) for letters in permutations(f"{torus.axes}T")]
    if not letters_of(words[0], torus):
        expected = "Fugaku or a Blue Gene, or --candidates N"
        raise InputError("no launcher with words for orders", found=str(torus), expected=expected)
    return [ordered(word, torus, traffic.n_tasks, tasks_per_node) for word in words]


def scattered_job(
    traffic: Workload | CommGraph, torus: Torus, path: str
) -> tuple[list[TaskMapping], dict[str, TaskMapping]]:
    """Return the orders of a job whose nodes are those of a file, as `job_mappings` does."""
    if torus.name != _FUGAKU:
        expected = "a job on Fugaku, such as --torus fugaku:4x6x8"
        raise InputError("--coords of another machine", found=str(torus), expected=expected)
    return job_mappings(traffic, torus.shape, read_coords(path))


def read_coords(path: str) -> NDArray[np.int64]:
    """Return lines of six whole numbers, with or without brackets and commas."""
    text = as_string(read_limited(path, _MOST_BYTES), path)
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"[(),;]", " ", line.partition("#")[0]).split()
        if not words:
            continue
        if len(words) != 6 or not all(re.fullmatch("[0-9]{1,6}", word) for word in words):
            expected = "six whole numbers, X Y Z a b c"
            raise InputError(
                "bad coordinates", file=path, line=number, found=line.strip(), expected=expected
            )
        rows.append(list(map(int, words)))
    return np.array(rows, dtype=np.int64).reshape(len(rows), 6)
