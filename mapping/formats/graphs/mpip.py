"""Communication graphs from the reports of mpiP that have a communication matrix."""

from __future__ import annotations

import re
import warnings

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputWarning

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from .._table import whole
from ..dialect import Dialect
from ..opening import Text, at_file
from ..source import Source
from .build import GraphOptions

START = re.compile(r"[@\s-]*Start Communication Matrix[\s-]*", re.I)
END = re.compile(r"[@\s-]*End\b.*", re.I)
ASSIGNMENT = "@ MPI Task Assignment"
Matrix = NDArray[np.int64]


def is_mpip(source: Source) -> bool:
    """Whether the file starts as a report of mpiP."""
    return source.start.lstrip()[:6] == b"@ mpiP"


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of the matrix; what is booked as rooted collectives can be chosen."""
    options.only(source.path, "include")
    rows, stated = _rows(source.text)
    src, dst, nbytes, messages = np.array(rows, np.int64).reshape(-1, 4).T
    n_tasks = max(int(max(src.max(initial=0), dst.max(initial=0))) + 1, stated)
    if options.n_tasks is not None and options.n_tasks < n_tasks:
        raise source.text.fault("wrong number of tasks", None, n_tasks, options.n_tasks)
    apart = src != dst
    with at_file(source.path):
        # The diagonal holds what its row adds up to, not messages of a task to itself.
        total = sum_edges(
            options.n_tasks or n_tasks, *(c[apart] for c in (src, dst, nbytes, messages))
        )
    booked = booked_at_root(total)
    amounts = np.stack([total.nbytes, total.n_messages])
    if booked.any():
        if options.include == "all":
            _tell(source, booked)
        amounts = {
            "all": amounts,
            "point_to_point": amounts - booked,
            "collective": booked,
        }[options.include]
    elif options.include == "collective":
        amounts = 0 * amounts
    some = (amounts > 0).any(axis=0)
    return CommGraph(
        total.n_tasks, total.src[some], total.dst[some], *amounts[:, some], name=options.name
    )


def booked_at_root(comm: CommGraph) -> NDArray[np.float64]:
    """Return bytes and messages of each edge, (2, n_edges), that look like rooted collectives.

    mpiP books those as messages between task 0 and every other. They are the same on each of these
    edges, and all that there is on most of them.
    """
    n = comm.n_tasks
    booked = np.zeros((2, comm.n_edges))
    inner = (comm.src != 0) & (comm.dst != 0) & (comm.nbytes > 0)
    # Where everybody talks to everybody, nothing tells them apart.
    if n < 4 or inner.sum() >= (n - 1) * (n - 2):
        return booked
    amounts = np.stack([comm.nbytes, comm.n_messages])
    for ends in (comm.src, comm.dst):
        at = np.flatnonzero((ends == 0) & (comm.n_messages > 0))
        if at.size == n - 1:
            least = amounts[:, at].min(axis=1, keepdims=True)
            if 2 * (amounts[:, at] == least).all(axis=0).sum() > n - 1:
                booked[:, at] = least
    return booked


def _tell(source: Source, booked: NDArray[np.float64]) -> None:
    warnings.warn(
        f"{source.path}: {booked[0].sum():.15g} bytes between task 0 and all others look like "
        'rooted collectives, which mpiP books so; include="point_to_point" leaves them out '
        "(on the command line --traffic point_to_point)",
        InputWarning,
        stacklevel=2,
    )


def _rows(text: Text) -> tuple[list[tuple[int, ...]], int]:
    """Source, target, bytes and messages of the matrix, and the number of tasks of the head."""
    rows: list[tuple[int, ...]] = []
    inside, closed, n_tasks = False, False, 0
    names = ("source", "target", "bytes", "messages")
    for number, line in enumerate(text.raw_lines(), start=1):
        if line.startswith(ASSIGNMENT):
            n_tasks += 1
        elif START.fullmatch(line):
            inside = True
        elif inside and END.fullmatch(line):
            inside, closed = False, True
        elif inside and (cells := line.split()) and not cells[0][0].isalpha():
            if len(cells) != 4:
                expected = "source target bytes messages"
                raise text.fault("bad line of the communication matrix", number, line, expected)
            ends = [
                whole(text, number, n, c, MAX_TASKS - 1)
                for n, c in zip(names, cells[:2], strict=False)
            ]
            counts = [whole(text, number, n, c) for n, c in zip(names[2:], cells[2:], strict=True)]
            rows.append((*ends, *counts))
    if inside:
        raise text.fault("truncated mpiP report", None, "no end of the communication matrix")
    if not closed:
        raise text.fault(
            "mpiP report without a communication matrix",
            None,
            "calls and their sites only",
            "a section 'Start Communication Matrix', which mpiP writes when built for it",
        )
    return rows, n_tasks


DIALECT = Dialect(
    name="mpip",
    holds="graph",
    summed=True,
    title="report of mpiP with a communication matrix",
    recognise=is_mpip,
    read=read,
    documentation="""
The section between `Start Communication Matrix` and its end: source, target, bytes and messages.
The diagonal holds the sums of the rows and is left out. mpiP books rooted collectives as messages
between task 0 and all others: the same amount on each of these edges. toruscast says how much that
seems to be; `--traffic point_to_point` leaves it out and `--traffic collective` keeps nothing else.
""",
    example="""@ mpiP
@ Version                  : 3.5.0
@--- Start Communication Matrix ---
src\tdst\tbytes\tcount
0\t0\t8192\t4
0\t1\t8192\t4
1\t0\t4096\t2
1\t1\t4096\t2
@--- End ---
""",
)
