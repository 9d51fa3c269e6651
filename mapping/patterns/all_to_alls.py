"""All-to-alls, over all tasks or groups of them."""

from __future__ import annotations

from toruscast.errors import InputError
from toruscast.validation import whole_number

from ..comm_graph import MAX_TASKS, CommGraph
from .edges import all_to_all_along, label


def all_to_all(n_tasks: int, nbytes: float, *, n_messages: float = 1) -> CommGraph:
    """Return the exchange in which every task sends ``nbytes`` to every other.

    Raises
    ------
    InputError
        If the number of tasks is not positive.

    Examples
    --------
    >>> all_to_all(4, 10)
    CommGraph(all-to-all-4: 4 tasks, 12 edges, 120 bytes, 12 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    return all_to_all_along((size,), 0, nbytes, n_messages, name=f"all-to-all-{size}")


def sub_all_to_all(
    n_tasks: int, nbytes: float, *, group: int = 64, n_messages: float = 1
) -> CommGraph:
    """Return all-to-alls over sub-communicators of ``group`` consecutive tasks.

    The logical grid is (groups, tasks of a group).

    Raises
    ------
    InputError
        If the groups do not divide the tasks.

    Examples
    --------
    >>> sub_all_to_all(256, 1024)
    CommGraph(sub-all-to-all-4x64: 256 tasks, 16128 edges, 16515072 bytes, 16128 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    members = whole_number(group, "group", 1, MAX_TASKS)
    if size % members:
        raise InputError("bad group", found=members, expected=f"a divisor of {size} tasks")
    grid = (size // members, members)
    return all_to_all_along(grid, 1, nbytes, n_messages, name=f"sub-all-to-all-{label(grid)}")
