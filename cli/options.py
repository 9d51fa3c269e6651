"""Options of the sub-commands, declared as fields of dataclasses.

`sub_command` makes a command from a function whose parameters are such dataclasses. A field holds
the name, the type, the help and the group of its option. A class's ``GROUP`` and ``RARE`` apply to
all options that the class itself declares.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from itertools import permutations
from types import NoneType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from toruscast.errors import InputError
from toruscast.validation import Routing, read_bytes, repeated

from .slow import format_registry
from .workers import start_workers

Value = TypeVar("Value")
Include = Literal["all", "point_to_point", "collective"]
GROUPS = ("Input", "Machine", "Mappings", "Answer", "Work", "Output")
MAPPING_HELP = (
    "a Blue Gene map file, a table with columns such as task,node, MPICH_RANK_ORDER, a rankfile or "
    "another format listed by 'toruscast formats'"
)
# Name of the feature set that contains all features from --plugin.
PLUGIN_SET = "mine"
ORDERS = "orders"
MAX_JOBS = 4096
# Key in the metadata of a click context. If it is set, the help also lists the rare options.
_ALL_OPTIONS = "toruscast.all_options"
POSITIVE = click.FloatRange(min=0, min_open=True)
PROBABILITY = click.FloatRange(0, 1, min_open=True, max_open=True)


class _CandidateCount(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == ORDERS else super().convert(value, param, ctx)


# A number of candidates, or "orders" for the rank orders of the machine's launcher.
CANDIDATE_COUNT = _CandidateCount(min=1)


def option(help: str, metavar: str = "", *names: str, default: Any = None, **settings: Any) -> Any:
    """Declare a dataclass field as an option.

    The option needs at least one of the options ``needs`` (``name=value`` means with this value),
    and cannot be combined with the options ``excludes``. Only --help-all lists a ``rare`` option.
    Other settings are passed to `click.Option`.
    """
    metadata = {"names": names, "help": help, "metavar": metavar or None, **settings}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def multi_option(help: str, metavar: str = "", *names: str, **settings: Any) -> Any:
    """Declare a tuple field as an option that may be given several times."""
    text, bracket, default = help.partition("  [default")
    help = f"{text} May be given several times.{bracket}{default}"
    return option(help, metavar, *names, default=(), **settings)


def argument(metavar: str, **settings: Any) -> Any:
    """Declare a dataclass field as a positional argument.

    It is required unless its type includes None or ``required`` is False.
    """
    return field(default=None, metadata={"metavar": metavar, "is_argument": True, **settings})


class _GroupedOption(click.Option):
    """An option that has a group in the help, and that may need or exclude other options."""

    def __init__(
        self,
        *args: Any,
        group: str = "Answer",
        needs: tuple[str, ...] = (),
        excludes: tuple[str, ...] = (),
        rare: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.group, self.needs, self.excludes, self.rare = group, needs, excludes, rare

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        result = super().type_cast_value(ctx, value)
        # click accepts NaN in every range.
        if isinstance(result, float) and math.isnan(result):
            raise click.BadParameter("found nan, expected a number", ctx, self)
        return result


class _GroupedCommand(click.Command):
    """A command that groups its options in the help and checks their combinations."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # click would use the last value of a repeated option.
        order = self.make_parser(ctx).parse_args(list(args))[2]
        for parameter, n in Counter(order).items():
            if n < 2 or not isinstance(parameter, click.Option):
                continue
            if not (parameter.multiple or parameter.count):
                raise click.UsageError(f"{parameter.opts[0]} may be given once, not {n} times", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Check required options and their combinations, then run the command."""
        for parameter in self.params:
            # click does not check this in some versions.
            if parameter.required and ctx.params.get(parameter.name or "") in (None, ()):
                raise click.MissingParameter(ctx=ctx, param=parameter)
        labels = {parameter.name: display_name(parameter) for parameter in self.params}
        given = [parameter for parameter in self.params if not is_default(parameter.name, ctx)]
        for first, second in permutations(given, 2):
            if second.name in getattr(first, "excludes", ()):
                both = [labels[p.name] for p in given if p in (first, second)]
                raise click.UsageError(f"{' and '.join(both)} exclude each other", ctx)
        met = {parameter.name for parameter in given}
        met |= {f"{name}={value}" for name, value in ctx.params.items()}
        for parameter in given:
            needs = getattr(parameter, "needs", ())
            # A shared option may need options that this command does not have.
            needs = [name for name in needs if name.split("=")[0] in labels]
            if needs and not met.intersection(needs):
                parts = [name.partition("=") for name in needs]
                needed = (f"{labels[name]} {value}".strip() for name, _, value in parts)
                raise click.UsageError(f"{labels[parameter.name]} needs {' or '.join(needed)}", ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the options by group; rare ones only with --help-all."""
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_listed = ctx.meta.get(_ALL_OPTIONS) or not getattr(parameter, "rare", False)
            if record is not None and is_listed:
                groups[getattr(parameter, "group", "Output")].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def display_name(parameter: click.Parameter) -> str:
    """Return the name of an option, or the metavar of an argument."""
    name = parameter.opts[0]
    return name if name.startswith("-") else (parameter.metavar or name).strip("[].")


def _show_all_options(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        ctx.meta[_ALL_OPTIONS] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = _GroupedOption(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all_options,
    group="Output",
    help="Show this message with all options.",
)


def sub_command(name: str, parent: click.Group | None = None) -> Callable[[Any], click.Command]:
    """Make a command from a function whose parameters are dataclasses of options."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        """Return a command with the options of all dataclasses in the signature."""
        hints = get_type_hints(function)
        classes: dict[str, Any] = {key: kind for key, kind in hints.items() if is_dataclass(kind)}

        def call(**values: Any) -> Any:
            """Make each dataclass from the values of its options, and call the function."""
            groups: dict[str, Any] = {
                key: kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})
                for key, kind in classes.items()
            }
            if "work" not in groups:
                return function(**groups)
            with start_workers(groups["work"]) as work:
                return function(**groups | {"work": work})

        parameters: dict[str, click.Parameter] = {}
        for kind in classes.values():
            types = get_type_hints(kind)
            declared = {f.name: f for f in fields(kind) if f.metadata}
            # The help lists a class's own options before those of its base classes.
            for owner in kind.__mro__:
                group, rare = getattr(owner, "GROUP", "Answer"), vars(owner).get("RARE", False)
                for field_name in inspect.get_annotations(owner):
                    if found := declared.pop(field_name, None):
                        made = _make_parameter(found, types[field_name], group, rare)
                        parameters[field_name] = made
        if any(getattr(parameter, "rare", False) for parameter in parameters.values()):
            parameters["help_all"] = _HELP_ALL
        text = (function.__doc__ or "").strip()
        command = _GroupedCommand(name, callback=call, params=[*parameters.values()], help=text)
        if parent is not None:
            parent.add_command(command)
        return command

    return decorate


def _make_parameter(declared: Field[Any], hint: Any, group: str, rare: bool) -> click.Parameter:
    """Make the click option or argument that a field declares."""
    settings: dict[str, Any] = dict(declared.metadata)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    is_optional = NoneType in get_args(hint)
    if is_optional and len(kinds) == 1:
        hint = kinds[0]
    if settings.pop("is_argument", False):
        settings.setdefault("required", declared.default is None and not is_optional)
        return click.Argument([declared.name], **settings)
    names = settings.pop("names") or (f"--{declared.name.replace('_', '-')}",)
    origin = get_origin(hint)
    if origin is tuple and Ellipsis in get_args(hint):
        settings["multiple"] = True
    if hint is int:
        settings["metavar"] = settings["metavar"] or "N"
    inferred: dict[Any, dict[str, Any]] = {
        bool: {"is_flag": True},
        int: {"type": click.IntRange(min=1)},
        float: {"type": float},
        Literal: {"type": click.Choice(get_args(hint))},
        Mapping: {"callback": read_pairs},
    }
    settings = inferred.get(origin or hint, {}) | settings
    default = None if declared.default is MISSING else declared.default
    if default not in (None, (), False):
        settings.setdefault("show_default", True)
    settings = dict[str, Any](group=group, rare=rare) | settings
    if default is not None:
        # click counts an option as given if its default is set, even to None.
        settings["default"] = default
    return _GroupedOption([*names, declared.name], **settings)


def read_pair(text: str, option: str | None = None, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Read NAME=VALUE; error messages give the expected ``form``."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not (name and value):
        hint = None if option is None else f"'{option}'"
        raise click.BadParameter(f"found {text}, expected {form}", param_hint=hint)
    return name, value


def read_fixed_task(text: str) -> tuple[int, int]:
    """Read TASK=NODE."""
    if match := re.fullmatch(r"\s*([0-9]{1,9})\s*=\s*([0-9]{1,9})\s*", text):
        return int(match[1]), int(match[2])
    raise click.BadParameter(f"found {text}, expected TASK=NODE, such as 0=17")


def read_pairs(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE."""
    return dict(map(read_pair, text.split(","))) if text else {}


def collect_by_name(option: str, pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Return the values of an option by name; raise if a name occurs twice."""
    if names := repeated(name for name, _ in pairs):
        raise click.UsageError(f"{option} given twice for {names[0] or 'all loops'}")
    return dict(pairs)


def read_numbers(text: str, min_count: int = 1, max_count: int = 100) -> list[float]:
    """Read numbers separated by commas."""
    with suppress(ValueError):
        numbers = [float(part) for part in text.split(",")]
        if min_count <= len(numbers) <= max_count:
            return numbers
    expected = f"{min_count} to {max_count}" if min_count < max_count else str(min_count)
    raise click.BadParameter(f"found {text}, expected {expected} numbers")


def named_numbers_reader(
    min_count: int = 1, max_count: int = 100
) -> Callable[[str], tuple[str, list[float]]]:
    """Return a function that reads NAME=V,V,..."""

    def read(text: str) -> tuple[str, list[float]]:
        name, numbers = read_pair(text)
        return name, read_numbers(numbers, min_count, max_count)

    return read


def refuse_options(reason: str, *names: str | type) -> None:
    """Raise if one of these options is given; a class means all its options.

    The message is the name of the option followed by ``reason``, such as "needs --times".
    """
    classes = (name for name in names if not isinstance(name, str))
    refused = {*names, *(each.name for kind in classes for each in fields(kind))}
    for parameter in click.get_current_context().command.params:
        if parameter.name in refused and not is_default(parameter.name):
            raise click.UsageError(f"{display_name(parameter)} {reason}")


def is_default(name: str | None, ctx: click.Context | None = None) -> bool:
    """Whether the user did not give this option."""
    source = (ctx or click.get_current_context()).get_parameter_source(name or "")
    return source in (None, ParameterSource.DEFAULT)


def top_option(default: int) -> Any:
    """Declare the number of table rows to print."""
    text = "Number of rows to print. JSON and CSV have all rows."
    return option(text, "N", default=default, group="Output")


def mapping_option(help: str, default: str | None = None, **settings: Any) -> Any:
    """Declare an option that takes one mapping."""
    return option(help, "FILE|STRATEGY", default=default, group="Mappings", **settings)


def plugin_option(
    purpose: str = f" (--features {PLUGIN_SET} selects them)", **settings: Any
) -> Any:
    """Declare a Python file that registers features; ``purpose`` continues the help."""
    return option(
        f"RUNS THE CODE of this Python file, which registers features{purpose}. Use only "
        "files that you trust.",
        "FILE.py",
        **settings,
    )


def tasks_option(help: str, **settings: Any) -> Any:
    """Declare the number of tasks."""
    return option(help, "N", type=click.IntRange(1, 2**31 - 1), group="Input", **settings)


def search_time_option(help: str = "Duration of the search in seconds.") -> Any:
    """Declare the duration of a search."""
    return option(help, default=30.0, type=click.FloatRange(min=0), group="Work")


def times_option(subject: str, **settings: Any) -> Any:
    """Declare a file of measured times; ``subject`` begins the help."""
    text = f"{subject}. The file has a line 'mapping,time' per run, in seconds."
    return option(text, "FILE.csv", "--times", group="Input", **settings)


@dataclass(frozen=True)
class FormatOptions:
    """Formats of files that cannot be recognised by their content."""

    RARE: ClassVar = True
    form: tuple[str, ...] = multi_option(
        "Format of a graph or mapping file that cannot be recognised, such as matrix or "
        "rank-order, listed by 'toruscast formats'. If both files need it, give graph=NAME and "
        "mapping=NAME.",
        "NAME",
        "--format",
        group="Input",
    )

    def format_of(self, holds: Literal["graph", "mapping"]) -> str:
        """Return the format for graphs or for mappings; the default is "auto"."""
        form = "graph=NAME or mapping=NAME"
        for text in self.form:
            kind, name = read_pair(text, "--format", form) if "=" in text else ("", text)
            if kind not in ("", "graph", "mapping"):
                raise InputError("bad --format", found=text, expected=form)
            found = {each.holds for each in format_registry.dialects() if each.name == name}
            is_other = holds not in found and not found.isdisjoint(("graph", "mapping"))
            if kind == holds or (not kind and not is_other):
                return name if name == "auto" else format_registry.find_dialect(name, holds).name
        return "auto"


def read_named_count(text: str) -> tuple[str, int]:
    """Read NAME=N or N."""
    name, _, number = (part.strip() for part in text.rpartition("="))
    if not re.fullmatch("[0-9]{1,12}", number):
        raise click.BadParameter(f"found {text}, expected a whole number or NAME=N")
    return name.lstrip("%"), int(number)


_PROGRAM_OPTIONS = ("hlo", "comms")


@dataclass(frozen=True)
class HloOptions:
    """Values that the HLO text of a compiled program does not state."""

    GROUP: ClassVar = "Input"
    RARE: ClassVar = True
    trips: tuple[tuple[str, int], ...] = multi_option(
        "Iterations of the loop NAME, or of all loops, if a compiled program (HLO) does not state "
        "them. The default is 1.",
        "[NAME=]N",
        type=read_named_count,
        needs=_PROGRAM_OPTIONS,
    )
    branches: tuple[tuple[str, int], ...] = multi_option(
        "Number of the branch (from 0) that the conditional NAME of a compiled program takes. "
        "The default is the branch that sends the most bytes.",
        "NAME=K",
        "--branch",
        type=read_named_count,
        needs=_PROGRAM_OPTIONS,
    )
    ragged_bytes: str | None = option(
        "Bytes that each device sends in a ragged all-to-all of a compiled program, in equal parts "
        "to all other devices. Without it, the operation is not counted.",
        "SIZE",
        needs=_PROGRAM_OPTIONS,
    )

    @property
    def hlo_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `read_hlo`."""
        return {
            "trips": collect_by_name("--trips", self.trips) or None,
            "branches": collect_by_name("--branch", self.branches),
            "ragged_bytes": None if self.ragged_bytes is None else read_bytes(self.ragged_bytes),
        }


@dataclass(frozen=True)
class GraphFileOptions(FormatOptions, HloOptions):
    """Options for reading a communication graph."""

    GROUP: ClassVar = "Input"
    RARE: ClassVar = True
    include: Include = option(  # noqa: RUF009
        "Part of Open MPI monitoring output to read.", default="all"
    )
    iterations: float | None = option(
        "Number of application steps in the graph, by which the traffic is divided. The default "
        "is 1 for files. Shipped datasets state theirs.",
        "N",
        type=POSITIVE,
    )
    columns: Mapping[str, str] = option(
        "Columns of a table, such as src=Source,dst=Target,nbytes=Bytes. In a list of edges, "
        "give the numbers of the columns.",
        "NAME=COLUMN,...",
        default=dict,
    )
    duplicates: Literal["refuse", "sum"] = option(
        "Whether to sum the edges of a task pair if there are several.", default="refuse"
    )
    collectives: Mapping[str, str] = option(
        "Algorithms of the collectives in a trace, such as allreduce=rabenseifner.",
        "NAME=ALGORITHM,...",
        default=dict,
    )
    gathered: Literal["each", "whole"] = option(
        "Whether the size of a gather in a Chakra trace is the size of each rank's contribution or "
        "of the whole result.",
        default="each",
    )

    @property
    def reader_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `read_comm`."""
        return {
            "format": self.format_of("graph"),
            "columns": self.columns,
            "duplicates": self.duplicates,
            "collectives": self.collectives,
            "gathered": self.gathered,
            **self.hlo_arguments,
        }


@dataclass(frozen=True)
class TorusOptions:
    """A torus, and changes of its network."""

    GROUP: ClassVar = "Machine"
    TORUS: ClassVar = (
        "Sizes such as 8x8x8 (8x8x8m: a mesh in the last dimension); a machine such as "
        "bluegene_q:1024 or tpu_v4:4x4x8, listed by 'toruscast machines'; or a file such as "
        "mine.toml."
    )
    torus: str | None = option(TORUS, "TORUS")
    changes: tuple[str, ...] = multi_option(
        "Set a constant of the network, such as overhead=1us, tie_break=random, "
        "bandwidth=1e9,2e9 (one per dimension), routing_order=1,0 or buffer_packets=8. If the "
        "rules of FIFOs, ties and arbitration are unknown, as for sizes such as 8x8x8, times are "
        "means over plausible networks. 'known' uses the rules of Blue Gene/Q instead, and "
        "'unknown' uses means for a named machine too.",
        "KEY=VALUE",
        "--network",
        rare=True,
    )


@dataclass(frozen=True)
class AllocationOptions(TorusOptions):
    """A torus with an allocation of nodes, and with slow or missing links."""

    RARE: ClassVar = True
    allocation: str | None = option(
        "Nodes of the job: one number or one row of coordinates per line, a CSV with a column "
        "node, or a table of hosts. The other nodes of the torus still route traffic.",
        "FILE",
    )
    slow_links: str | None = option(
        "File of slow and missing links, with a line link,bandwidth for each: bytes per second, or "
        '0 if missing. A link is a number or a label such as "(0,2,1) +Z".',
        "FILE.csv",
    )


_GRAPH_FILE_OPTIONS = [each.name for each in fields(GraphFileOptions) if each.name != "form"]


@dataclass(frozen=True)
class TrafficOptions(AllocationOptions, GraphFileOptions):
    """Traffic of an application, and the torus that carries it."""

    GROUP: ClassVar = "Input"
    comms: tuple[str, ...] = multi_option(
        "Communication graph: a file such as lines of src dst bytes [messages], or a shipped "
        "dataset such as lammps-lj-512. Several graphs are phases, with a barrier between them.",
        "FILE|NAME",
        "--comm",
    )
    collective: str | None = option(
        "Instead of --comm: the rounds of a collective, such as allreduce/ring:64MB, or "
        "allreduce/ring:64MB:2 on two ports. 'toruscast collectives' ranks the algorithms.",
        "ALGORITHM:SIZE",
        excludes=("comms", "dependent", "grid", *_GRAPH_FILE_OPTIONS),
        rare=True,
    )
    tasks: int | None = tasks_option(
        "Tasks of the collective.  [default: one per node]", needs=("collective",), rare=True
    )
    dependent: bool = option(
        "Treat the graphs as dependent rounds: there is no barrier, and a task waits only for its "
        "own messages of the previous round.",
        default=False,
        rare=True,
    )
    grid: str | None = option(
        "Task grid for the mapping strategies, such as 8x8x8.  [default: near-cubic]",
        "SIZES",
        rare=True,
    )

    @property
    def is_given(self) -> bool:
        """Whether a graph or a collective is given."""
        return bool(self.comms) or self.collective is not None


@dataclass(frozen=True)
class MappingFileOptions(FormatOptions):
    """Options for reading mapping files."""

    GROUP: ClassVar = "Mappings"
    RARE: ClassVar = True
    tasks_per_node: int | None = option(
        "Maximum tasks per node.  [default: the number in the mapping file, or the minimum]", "N"
    )
    hosts: str | None = option(
        "Table of host names and nodes, such as a CSV host,x,y,z. Needed for mapping files "
        "with host names, or with host numbers in the order of an allocation.",
        "FILE",
        needs=("mappings", "mapping", "against", "out", "script"),
    )
    mapping_columns: Mapping[str, str] = option(
        "Columns of a table of mappings, such as task=proc,node=where.",
        "NAME=COLUMN,...",
        default=dict,
        needs=("mappings", "mapping", "against"),
    )
    fixed: tuple[tuple[int, int], ...] = multi_option(
        "Keep a task on a node.", "TASK=NODE", "--fix", type=read_fixed_task
    )

    @property
    def reader_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `read_mappings`."""
        return {
            "tasks_per_node": self.tasks_per_node,
            "hosts": self.hosts,
            "format": self.format_of("mapping"),
            "columns": self.mapping_columns,
        }

    @property
    def fixed_nodes(self) -> dict[int, int]:
        """Nodes of the tasks given with --fix, by task."""
        nodes: dict[int, int] = {}
        for task, node in self.fixed:
            if nodes.setdefault(task, node) != node:
                found, expected = f"{task}={node}", f"{task}={nodes[task]}"
                raise InputError("task fixed to two nodes", found=found, expected=expected)
        return nodes


@dataclass(frozen=True)
class CandidateOptions(MappingFileOptions):
    """Candidate mappings, read from files or made for the traffic and the torus."""

    mappings: tuple[str, ...] = multi_option(
        f"A folder of mapping files; one file ({MAPPING_HELP}); or lines of name,node,node,...",
        "FILE|FOLDER",
    )
    candidates: int | Literal["orders"] | None = option(
        "Instead of --mappings, N mappings: first permutations of the dimensions and placements "
        "by traffic, then perturbed and random mappings. Or 'orders': the rank orders of the "
        "machine's launcher, such as rank-map-bynode on Fugaku.  [default: 84]",
        f"N|{ORDERS}",
        type=CANDIDATE_COUNT,
        excludes=("mappings",),
    )


MEASURED_HELP = "The mappings of the runs in --times."


@dataclass(frozen=True)
class WorkerOptions:
    """Options that choose threads, processes or a cluster."""

    GROUP: ClassVar = "Work"
    RARE: ClassVar = True
    jobs: int = option(
        "Number of threads.  [default: all processors]",
        default=os.cpu_count() or 1,
        type=click.IntRange(1, MAX_JOBS),
        show_default=False,
    )
    workers: int | None = option(
        "Number of processes, used instead of threads.",
        type=click.IntRange(1, MAX_JOBS),
        excludes=("jobs", "cluster"),
    )
    cluster: str | None = option(
        "Dask cluster to use instead: the address of its scheduler, such as tcp://host:8786, or "
        "a file that starts a cluster, such as slurm.toml.",
        "ADDRESS|FILE.toml",
        excludes=("jobs",),
    )


@dataclass(frozen=True)
class SeedOptions:
    """Seed of the random numbers."""

    GROUP: ClassVar = "Work"
    RARE: ClassVar = True
    seed: int = option("Random seed.", default=1, type=click.IntRange(min=0))


@dataclass(frozen=True)
class WorkOptions(WorkerOptions, SeedOptions):
    """Workers, seed and routing."""

    RARE: ClassVar = True
    routing: Routing = option(  # noqa: RUF009
        "Routing: deterministic (dimension order), adaptive (minimal), or by_size (adaptive for "
        "phases with long messages).",
        default="deterministic",
    )


@dataclass(frozen=True)
class LevelOptions:
    """Option for the probability of intervals."""

    RARE: ClassVar = True
    level: float = option("Probability of the intervals.", default=0.95, type=PROBABILITY)
