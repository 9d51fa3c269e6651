"""A communication graph that is read in pieces and never held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .comm_graph import CommGraph


@dataclass(frozen=True, eq=False)
class GraphStream:
    """A communication graph whose edges are read again, in pieces, whenever they are needed.

    `stream_comm` makes one of a file. `extract` computes features of it; whatever needs all edges
    at once, such as a simulation, does not take it.

    Attributes
    ----------
    n_tasks, n_edges : int
    nbytes, n_messages : float
        Of all edges together.
    longest : float
        Bytes of the longest message.
    read : callable
        Takes the number of tasks, and gives the pieces.
    grid : tuple of int, optional
        The logical grid of the tasks.
    name : str
        A label for reports.
    """

    n_tasks: int
    n_edges: int
    nbytes: float
    n_messages: float
    longest: float
    read: Callable[[int], Iterator[CommGraph]] = field(repr=False)
    grid: tuple[int, ...] | None = None
    name: str = ""

    def pieces(self) -> Iterator[CommGraph]:
        """Read the edges: graphs of all tasks, each with all edges of some tasks in a row."""
        return self.read(self.n_tasks)

    @property
    def tasks_alone(self) -> CommGraph:
        """The tasks and their grid without an edge, for strategies that look at no messages."""
        return CommGraph(self.n_tasks, [], [], [], grid=self.grid, name=self.name)
