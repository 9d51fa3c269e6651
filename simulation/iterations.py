"""Iterations of a workload that follow each other without a barrier."""

from __future__ import annotations

from toruscast.mapping import Workload
from toruscast.validation import whole_number

# Each iteration is a phase at least, and holds messages of its own.
_MOST = 100_000


def repeated(workload: Workload, iterations: int) -> Workload:
    """Return the workload with its phases once for each iteration.

    Raises
    ------
    InputError
        If ``iterations`` is no whole number from 1 to 100,000.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph
    >>> len(repeated(Workload([CommGraph(2, [0], [1], [8])]), 3))
    3
    """
    iterations = whole_number(iterations, "iterations", 1, _MOST)
    if iterations == 1:
        return workload
    # A single phase has no barrier at all, so that all are rounds.
    dependent = workload.dependent or len(workload) == 1
    return Workload(tuple(workload.phases) * iterations, workload.name, dependent)


def between_barriers(workload: Workload, iterations: int) -> list[list[int]]:
    """Return the phases of a repeated workload, those together that no barrier separates.

    The last phase of an iteration and the first of the next are together.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph
    >>> comm = CommGraph(2, [0], [1], [8])
    >>> between_barriers(Workload([comm] * 6), 3)
    [[0], [1, 2], [3, 4], [5]]
    """
    if workload.dependent:
        return [list(range(len(workload)))]
    each = len(workload) // iterations
    parts: list[list[int]] = []
    for phase in range(len(workload)):
        if phase and phase % each == 0:
            parts[-1].append(phase)
        else:
            parts.append([phase])
    return parts


def first_alone(workload: Workload, iterations: int) -> list[list[int]]:
    """Return the phases of the first of several iterations, as if no other followed.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph
    >>> first_alone(Workload([CommGraph(2, [0], [1], [8])] * 6), 3)
    [[0], [1]]
    """
    if iterations == 1:
        return []
    each = range(len(workload) // iterations)
    return [list(each)] if workload.dependent else [[phase] for phase in each]


def part_of(workload: Workload, numbers: list[int] | tuple[int, ...]) -> Workload:
    """Return the phases of these numbers, which no barrier separates.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph
    >>> len(part_of(Workload([CommGraph(2, [0], [1], [8])] * 3), [0, 1]))
    2
    """
    if len(numbers) == len(workload):
        # What is known of its edges is not worked out anew.
        return workload
    return Workload([workload.phases[i] for i in numbers], dependent=len(numbers) > 1)
