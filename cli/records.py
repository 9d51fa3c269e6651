"""Options that belong together travel to a command as one record, not as loose arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from toruscast.typing import Routing

if TYPE_CHECKING:
    from toruscast.training import Budget

F = TypeVar("F", bound=Callable[..., Any])
Format = str
Include = Literal["all", "point_to_point", "collective"]


@dataclass(frozen=True)
class Reading:
    """How a communication graph is read."""

    form: Format = "auto"
    include: Include = "all"
    """Which part of a profile counts."""
    iterations: float | None = None
    """Application steps that the graph covers; None if nobody said."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of a table's columns by ours."""
    duplicates: Literal["refuse", "sum"] = "refuse"
    collectives: Mapping[str, str] = field(default_factory=dict)
    """Algorithms of collectives by their names."""
    gathered: Literal["each", "whole"] = "each"
    """What the size of a gather in a trace is."""

    @property
    def how(self) -> dict[str, Any]:
        """What `read_comm` is told."""
        return {
            "format": self.form,
            "columns": self.columns,
            "duplicates": self.duplicates,
            "collectives": self.collectives,
            "gathered": self.gathered,
        }


@dataclass(frozen=True)
class Host:
    """A torus, and what is changed of it."""

    torus: str | None = None
    changes: tuple[str, ...] = ()
    """What ``--network`` changes."""
    allocation: str | None = None
    """File of the nodes that are ours."""
    slow_links: str | None = None
    """File of links that are slow or missing."""


@dataclass(frozen=True)
class Traffic(Reading, Host):
    """What is sent, over which torus."""

    comms: tuple[str, ...] = ()
    """Files or names of datasets: one, or one for each phase."""
    collective: str | None = None
    """Instead of graphs: a collective's algorithm and its size."""
    tasks: int | None = None
    """That the collective runs on; all nodes if not told."""
    dependent: bool = False
    """Whether the phases are rounds without a barrier."""
    grid: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether it says what is sent."""
        return bool(self.comms) or self.collective is not None


@dataclass(frozen=True)
class Placing:
    """How files of mappings are read."""

    tasks_per_node: int | None = None
    hosts: str | None = None
    """A table of the names of hosts."""
    mapping_form: Format = "auto"
    fixed: tuple[str, ...] = ()
    """Tasks that stay on a node: words such as ``0=17``."""
    mapping_columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the columns of tables of mappings by ours."""

    @property
    def how(self) -> dict[str, Any]:
        """What `read_mappings` is told."""
        return {
            "tasks_per_node": self.tasks_per_node,
            "hosts": self.hosts,
            "format": self.mapping_form,
            "columns": self.mapping_columns,
        }


@dataclass(frozen=True)
class Candidates(Placing):
    """Which mappings are looked at: those of files, or a number of our own."""

    mappings: str | None = None
    candidates: int | None = None


@dataclass(frozen=True)
class Work:
    """How the work is done."""

    seed: int = 1
    jobs: int = 1
    """Tasks at once: threads, or as many workers as there are."""
    workers: int | None = None
    """Processes instead of threads."""
    cluster: str | None = None
    """The address of a cluster's scheduler, or a file that tells how to start one."""
    routing: Routing = "deterministic"


@dataclass(frozen=True)
class Limits:
    """How much may be simulated before the answer."""

    simulations: int = 30
    seconds: float | None = None
    no_simulation: bool = False

    @property
    def budget(self) -> Budget:
        """The same for the library."""
        from toruscast.training import Budget

        return Budget(0 if self.no_simulation else self.simulations, self.seconds)


@dataclass(frozen=True)
class Basis:
    """What a forecast rests on: a model, or times that were measured."""

    model: str = "default"
    plugin: str | None = None
    """File of the features that the model reads."""
    times: str | None = None
    """File of measured times of some candidates."""


@dataclass(frozen=True)
class SampleSource(Placing):
    """Where samples come from: simulated, measured, or read."""

    number: int | None = None
    """Mappings to simulate."""
    times: str | None = None
    """File of measured times, of ``mappings``."""
    mappings: str | None = None
    samples: str | None = None


def as_record(name: str, kind: type, *options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options to a command and hand it their values as one ``kind``, under ``name``.

    Every option's parameter has the name of a field; fields without an option keep their default.
    """

    def add(function: F) -> F:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            given = {f.name: values.pop(f.name) for f in fields(kind) if f.name in values}
            return function(**values, **{name: kind(**given)})

        return with_options(command, *options)  # type: ignore[return-value, arg-type]

    return add


def with_options(function: F, *options: Callable[[F], F]) -> F:
    """Add options in the order of the help."""
    # Decorators apply from the bottom up.
    for option in reversed(options):
        function = option(function)
    return function


def refuse(where: str, *names: str | type) -> None:
    """Raise if one of these options was given, which mean something only elsewhere.

    A record stands for all its options.
    """
    refused = {
        name
        for each in names
        for name in ([each] if isinstance(each, str) else [f.name for f in fields(each)])
    }
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name in refused and given is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} goes {where}")


def is_default(name: str) -> bool:
    """Whether nobody gave the option of this parameter."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (None, ParameterSource.DEFAULT)
