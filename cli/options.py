"""Options: each is a field of a record, with its name, type, help and group in one place.

A command takes records: `sub_command` makes its options from their fields.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from itertools import combinations
from types import NoneType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from toruscast.errors import InputError
from toruscast.validation import Routing, read_bytes, repeated

from .slow import registry
from .workers import on_workers

Value = TypeVar("Value")
Include = Literal["all", "point_to_point", "collective"]
GROUPS = ("Input", "Machine", "Mappings", "Answer", "Work", "Output")
MAPPING_HELP = (
    "a map file of Blue Gene, a table below names such as task,node, MPICH_RANK_ORDER, a rankfile "
    "or another format that 'toruscast formats' lists"
)
MINE = "mine"
ORDERS = "orders"
MAX_JOBS = 4096


class Amount(click.IntRange):
    """A number of candidates, or the word for those that a launcher offers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Leave the word as it is."""
        return value if value == ORDERS else super().convert(value, param, ctx)


ABOVE_0 = click.FloatRange(min=0, min_open=True)
LEVEL = click.FloatRange(0, 1, min_open=True, max_open=True)


def option(help: str, metavar: str = "", *names: str, default: Any = None, **how: Any) -> Any:
    """Declare a field of a record that is an option.

    It says something only beside one of the options whose fields ``needs`` names, or which have
    that value (``name=value``), and with none of those that ``excludes`` names.
    """
    declared = {"names": names, "help": help, "metavar": metavar or None, **how}
    if default is dict:
        return field(default_factory=dict, metadata=declared)
    return field(default=default, metadata=declared)


def argument(metavar: str, **how: Any) -> Any:
    """Declare a field of a record that is an argument, without a name.

    It must be given unless its type has None or ``required`` is False.
    """
    return field(default=None, metadata={"metavar": metavar, "is_argument": True, **how})


class GroupedOption(click.Option):
    """An option that knows in which group of the help it stands."""

    def __init__(
        self,
        *args: Any,
        group: str = "Answer",
        needs: tuple[str, ...] = (),
        excludes: tuple[str, ...] = (),
        **how: Any,
    ) -> None:
        super().__init__(*args, **how)
        self.group, self.needs, self.excludes = group, needs, excludes

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert it; NaN, which is in every range of click, is no number."""
        result = super().type_cast_value(ctx, value)
        if isinstance(result, float) and math.isnan(result):
            raise click.BadParameter("found nan, expected a number", ctx, self)
        return result


class GroupedCommand(click.Command):
    """A command whose help has its options in groups, and whose options repeat only if they say so.

    click takes the last of several values.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a second value of an option that takes one."""
        order = self.make_parser(ctx).parse_args(list(args))[2]
        for each, times in Counter(order).items():
            if times > 1 and isinstance(each, click.Option) and not (each.multiple or each.count):
                raise click.UsageError(f"{each.opts[0]} may be given once, not {times} times", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it if what was given goes together and nothing is missing.

        Not every version of click asks for what is required.
        """
        for each in self.params:
            if each.required and ctx.params.get(each.name or "") in (None, ()):
                raise click.MissingParameter(ctx=ctx, param=each)
        given = [each for each in self.params if not is_default(each.name, ctx)]
        for first, second in combinations(given, 2):
            if _excludes(first, second) or _excludes(second, first):
                names = f"{_shown(first)} and {_shown(second)}"
                raise click.UsageError(f"{names} exclude each other", ctx)
        known = {each.name: _shown(each) for each in self.params}
        there = {each.name for each in given}
        there |= {f"{name}={value}" for name, value in ctx.params.items()}
        for each in given:
            needs = [name for name in getattr(each, "needs", ()) if name.split("=")[0] in known]
            if needs and not there.intersection(needs):
                parts = [name.partition("=") for name in needs]
                wanted = (f"{known[name]} {value}".strip() for name, _, value in parts)
                raise click.UsageError(f"{_shown(each)} needs {' or '.join(wanted)}", ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them, those of one group in the order of the command."""
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups[getattr(parameter, "group", "Output")].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _excludes(each: click.Parameter, other: click.Parameter) -> bool:
    return other.name in getattr(each, "excludes", ())


def _shown(each: click.Parameter) -> str:
    """Return an option's name, or what stands in the place of an argument."""
    name = each.opts[0]
    return name if name.startswith("-") else (each.metavar or name).strip("[].")


def sub_command(name: str, parent: click.Group | None = None) -> Callable[[Any], click.Command]:
    """Make a command of a function of records, whose fields are its options and arguments."""

    def make(function: Callable[..., Any]) -> click.Command:
        hints = get_type_hints(function)
        kinds: dict[str, Any] = {each: kind for each, kind in hints.items() if is_dataclass(kind)}

        def call(**values: Any) -> Any:
            given: dict[str, Any] = {}
            for each, kind in kinds.items():
                own = {f.name: values[f.name] for f in fields(kind) if f.name in values}
                given[each] = kind(**own)
            work = given.get("work")
            # Its workers are there as long as the command runs.
            with nullcontext() if work is None else on_workers(work) as ready:
                return function(**(given if work is None else given | {"work": ready}))

        parameters: dict[str, click.Parameter] = {}
        for kind in kinds.values():
            types = get_type_hints(kind)
            declared = {each.name: each for each in fields(kind) if each.metadata}
            # A record's own options stand before those that it inherits.
            for owner in kind.__mro__:
                for each_name in inspect.get_annotations(owner):
                    each = declared.pop(each_name, None)
                    if each is not None:
                        group = getattr(owner, "GROUP", "Answer")
                        parameters[each_name] = _parameter(each, types[each_name], group)
        made = GroupedCommand(
            name,
            callback=call,
            params=list(parameters.values()),
            help=(function.__doc__ or "").strip(),
        )
        if parent is not None:
            parent.add_command(made)
        return made

    return make


def _parameter(each: Field[Any], hint: Any, group: str) -> click.Parameter:
    """Make the option or argument that a field declares."""
    how: dict[str, Any] = dict(each.metadata)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    may_lack = NoneType in get_args(hint)
    if may_lack and len(kinds) == 1:
        hint = kinds[0]
    if how.pop("is_argument", False):
        how.setdefault("required", each.default is None and not may_lack)
        return click.Argument([each.name], **how)
    names = how.pop("names") or (f"--{each.name.replace('_', '-')}",)
    origin = get_origin(hint)
    if origin is tuple and Ellipsis in get_args(hint):
        how["multiple"] = True
    if "type" in how:
        pass
    elif hint is bool:
        how["is_flag"] = True
    elif origin is Literal:
        how["type"] = click.Choice(get_args(hint))
    elif origin is Mapping:
        how["callback"] = read_pairs
    elif hint is int:
        how["type"] = click.IntRange(min=1)
    elif hint is float:
        how["type"] = float
    default = None if each.default is MISSING else each.default
    if default not in (None, (), False):
        how.setdefault("show_default", True)
    how.setdefault("group", group)
    if default is not None:
        # An option with a default, though it is None, counts as given.
        how["default"] = default
    return GroupedOption([*names, each.name], **how)


def read_pair(text: str, option: str | None = None, form: str = "NAME=VALUE") -> tuple[str, str]:
    """Read NAME=VALUE, or what ``form`` says."""
    name, _, value = (word.strip() for word in text.partition("="))
    if not (name and value):
        hint = None if option is None else f"'{option}'"
        raise click.BadParameter(f"found {text}, expected {form}", param_hint=hint)
    return name, value


def read_bound(text: str) -> tuple[int, int]:
    """Read TASK=NODE."""
    form = "TASK=NODE, such as 0=17"
    words = read_pair(text, form=form)
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        raise click.BadParameter(f"found {text}, expected {form}")
    return int(words[0]), int(words[1])


def read_pairs(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE."""
    return dict(map(read_pair, text.split(","))) if text else {}


def by_name(option: str, pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Return the values of an option by their names, and refuse a name that stands twice."""
    if twice := repeated(name for name, _ in pairs):
        raise click.UsageError(f"{option} given twice for {twice[0] or 'all loops'}")
    return dict(pairs)


def read_numbers(text: str, least: int = 1, most: int = 100) -> list[float]:
    """Read V,V,..: so many numbers at least and at most."""
    with suppress(ValueError):
        numbers = [float(part) for part in text.split(",")]
        if least <= len(numbers) <= most:
            return numbers
    expected = str(least) if least == most else f"{least} to {most}"
    raise click.BadParameter(f"found {text}, expected {expected} numbers")


def named_numbers(least: int = 1, most: int = 100) -> Callable[[str], tuple[str, list[float]]]:
    """Return a reader of NAME=V,V,.."""

    def read(text: str) -> tuple[str, list[float]]:
        name, numbers = read_pair(text)
        return name, read_numbers(numbers, least, most)

    return read


def refuse(where: str, *names: str | type) -> None:
    """Raise if one of these options was given, which mean something only elsewhere.

    A record represents all its options.
    """
    records = (each for each in names if not isinstance(each, str))
    refused = {*names, *(own.name for each in records for own in fields(each))}
    for parameter in click.get_current_context().command.params:
        if parameter.name in refused and not is_default(parameter.name):
            raise click.UsageError(f"{_shown(parameter)} goes {where}")


def is_default(name: str | None, ctx: click.Context | None = None) -> bool:
    """Whether nobody gave the option of this parameter."""
    source = (ctx or click.get_current_context()).get_parameter_source(name or "")
    return source in (None, ParameterSource.DEFAULT)


def top_option(default: int) -> Any:
    """Declare how much of a long table is shown."""
    text = "Rows shown from the top; JSON and CSV have all."
    return option(text, "N", default=default, type=click.IntRange(min=1), group="Output")


def mapping_option(help: str, default: str | None = None, **how: Any) -> Any:
    """Declare one mapping."""
    return option(help, "FILE|STRATEGY", default=default, group="Mappings", **how)


def plugin_option(what_for: str = f"; --features {MINE} names them all", **how: Any) -> Any:
    """Declare features of the user's own; ``what_for`` says where they are named."""
    return option(
        "RUNS THE CODE of this Python file, which registers features of your own"
        f"{what_for}. Only give files that you trust.",
        "FILE.py",
        **how,
    )


def splits_option() -> Any:
    """Declare the number of splits."""
    text = "Random splits into two thirds to train on and one third to forecast."
    return option(text, "N", default=50, group="Work", type=click.IntRange(min=1))


def tasks_option(what: str, needs: tuple[str, ...] = ()) -> Any:
    """Declare a number of tasks."""
    return option(what, "N", type=click.IntRange(1, 2**31 - 1), group="Input", needs=needs)


def search_time_option(what: str = "How long to search.") -> Any:
    """Declare the seconds of a search."""
    return option(what, default=30.0, type=click.FloatRange(min=0), group="Work")


def times_option(what: str, **how: Any) -> Any:
    """Declare the file of measured times of ``what``."""
    text = f"{what}: lines 'mapping,time' in seconds, as often as it ran."
    return option(text, "FILE.csv", "--times", group="Input", **how)


@dataclass(frozen=True)
class Formats:
    """How files are read whose format is not clear."""

    form: tuple[str, ...] = option(
        "Format of a graph or of mappings where the file does not decide, such as matrix or "
        "rank-order; 'toruscast formats' lists all. May be given for both; graph=table and "
        "mapping=table say which is meant.",
        "NAME",
        "--format",
        default=(),
        group="Input",
    )

    def format_of(self, holds: Literal["graph", "mapping"]) -> str:
        """Return the format of graphs or mappings; "auto" where it is not given."""
        form = "graph=NAME or mapping=NAME"
        for text in self.form:
            kind, name = read_pair(text, "--format", form) if "=" in text else ("", text)
            if kind not in ("", "graph", "mapping"):
                raise InputError("bad --format", found=text, expected=form)
            others = {
                each.name
                for each in registry.dialects("graph" if holds == "mapping" else "mapping")
            }
            ours = {each.name for each in registry.dialects(holds)}
            if kind == holds or (not kind and (name in ours or name not in others)):
                return name if name == "auto" else registry.dialect_of(name, holds).name
        return "auto"


def read_named_count(text: str) -> tuple[str, int]:
    """Read NAME=N; the name may be missing."""
    name, _, number = (word.strip() for word in text.rpartition("="))
    if not re.fullmatch("[0-9]{1,12}", number):
        raise click.BadParameter(f"found {text}, expected a whole number, or NAME= before it")
    return name.lstrip("%"), int(number)


# Options that read a compiled program.
_PROGRAM = ("hlo", "comms")


@dataclass(frozen=True)
class HloOptions:
    """What the HLO text of a compiled program does not say."""

    GROUP: ClassVar = "Input"
    trips: tuple[tuple[str, int], ...] = option(
        "Turns of the loops of a compiled program (HLO) whose number it does not state, or of the "
        "loop NAME; such loops count once otherwise. May be given several times.",
        "[NAME=]N",
        default=(),
        type=read_named_count,
        needs=_PROGRAM,
    )
    branches: tuple[tuple[str, int], ...] = option(
        "Which branch of the conditional NAME of a compiled program runs, from 0; the one that "
        "sends most otherwise. May be given several times.",
        "NAME=K",
        "--branch",
        default=(),
        type=read_named_count,
        needs=_PROGRAM,
    )
    ragged_bytes: str | None = option(
        "Bytes that each device sends in a ragged all-to-all of a compiled program, as many to "
        "each other; it does not count otherwise.",
        "SIZE",
        needs=_PROGRAM,
    )

    @property
    def stated(self) -> dict[str, Any]:
        """Return what `read_hlo` is given."""
        return {
            "trips": by_name("--trips", self.trips) or None,
            "branches": by_name("--branch", self.branches),
            "ragged_bytes": None if self.ragged_bytes is None else read_bytes(self.ragged_bytes),
        }


@dataclass(frozen=True)
class Reading(Formats, HloOptions):
    """How a communication graph is read."""

    GROUP: ClassVar = "Input"
    include: Include = option(  # noqa: RUF009
        "Which part of Open MPI monitoring output counts.", default="all"
    )
    iterations: float | None = option(
        "Application steps that the graph covers: traffic is divided by it. Known for shipped "
        "datasets; 1 for files.",
        "N",
        type=ABOVE_0,
    )
    columns: Mapping[str, str] = option(
        "Columns of a table, such as src=Source,dst=Target,nbytes=Bytes; of a list of edges "
        "by number.",
        "NAME=COLUMN,...",
        default=dict,
    )
    duplicates: Literal["refuse", "sum"] = option(
        "Whether pairs of tasks that stand on several lines are added up.", default="refuse"
    )
    collectives: Mapping[str, str] = option(
        "How collectives of a trace are sent, such as allreduce=rabenseifner.",
        "NAME=ALGORITHM,...",
        default=dict,
    )
    gathered: Literal["each", "whole"] = option(
        "Of Chakra traces: whether the size of a gather is what each rank puts in, or all.",
        default="each",
    )

    @property
    def how(self) -> dict[str, Any]:
        """Return what `read_comm` is given."""
        return {
            "format": self.format_of("graph"),
            "columns": self.columns,
            "duplicates": self.duplicates,
            "collectives": self.collectives,
            "gathered": self.gathered,
            **self.stated,
        }


@dataclass(frozen=True)
class TorusOptions:
    """A torus, and what is changed of its network."""

    GROUP: ClassVar = "Machine"
    TORUS: ClassVar = (
        "Sizes such as 8x8x8 (8x8x8m: a mesh in the last dimension); a machine such as "
        "bluegene_q:1024 or tpu_v4:4x4x8 (listed by 'toruscast machines'); or a file such as "
        "mine.toml."
    )
    torus: str | None = option(TORUS, "TORUS")
    changes: tuple[str, ...] = option(
        "Change a constant of the network, such as overhead=1us, tie_break=random, "
        "bandwidth=1e9,2e9 (one for each dimension), routing_order=1,0 or buffer_packets=8. With "
        "unknown, where the machine's rules for FIFOs and arbitration are not published, rank "
        "averages over plausible networks. May be given several times.",
        "KEY=VALUE",
        "--network",
        default=(),
    )


@dataclass(frozen=True)
class Host(TorusOptions):
    """A torus of which some nodes and links are ours."""

    allocation: str | None = option(
        "Nodes that are yours: a number or coordinates a line, a CSV with a column node, or a "
        "table of hosts. Other nodes still route traffic.",
        "FILE",
    )
    slow_links: str | None = option(
        "Slow and missing links: a line link,bandwidth each, in bytes per second, 0 "
        'for missing; a link is a number or a label such as "(0,2,1) +Z".',
        "FILE.csv",
    )


# Options of files of graphs alone.
_OF_GRAPHS = [each.name for each in fields(Reading) if each.name != "form"]


@dataclass(frozen=True)
class Traffic(Host, Reading):
    """What is sent, over which torus."""

    comms: tuple[str, ...] = option(
        "Communication graph: Open MPI monitoring output, lines of src dst bytes [messages], a "
        "dense matrix, .npz or .mtx, or the name of a shipped dataset, such as lammps-lj-512. "
        "Given several times: phases, a barrier between them.",
        "FILE|NAME",
        "--comm",
        default=(),
        group="Input",
    )
    collective: str | None = option(
        "Instead: the rounds of a collective, such as allreduce/ring:64MB, or with :2 "
        "behind it on two ports; 'toruscast collectives' ranks the algorithms.",
        "ALGORITHM:SIZE",
        group="Input",
        excludes=("comms", "dependent", "grid", *_OF_GRAPHS),
    )
    tasks: int | None = tasks_option(
        "Tasks of the collective.  [default: one on every node]", needs=("collective",)
    )
    dependent: bool = option(
        "The phases are rounds: instead of at a barrier, each task waits for its own "
        "messages of the round.",
        default=False,
        group="Input",
    )
    grid: str | None = option(
        "Logical task grid such as 8x8x8, for the mapping strategies; near-cubic if unknown.",
        "SIZES",
        group="Input",
    )

    @property
    def is_given(self) -> bool:
        """Whether it says what is sent."""
        return bool(self.comms) or self.collective is not None


@dataclass(frozen=True)
class Placing(Formats):
    """How files of mappings are read."""

    GROUP: ClassVar = "Mappings"
    tasks_per_node: int | None = option(
        "Tasks that a node takes; what a file of mappings states, or the least that suffices, if "
        "not given.",
        "N",
    )
    hosts: str | None = option(
        "Names of hosts and the node of each, such as a CSV host,x,y,z: for files of mappings "
        "that name hosts, or count them in the order of an allocation.",
        "FILE",
        needs=("mappings", "mapping", "against", "out", "script"),
    )
    mapping_columns: Mapping[str, str] = option(
        "Columns of a table of mappings, such as task=proc,node=where.",
        "NAME=COLUMN,...",
        default=dict,
        needs=("mappings", "mapping", "against"),
    )
    fixed: tuple[tuple[int, int], ...] = option(
        "A task that stays on its node. May be given several times.",
        "TASK=NODE",
        "--fix",
        default=(),
        type=read_bound,
    )

    @property
    def how(self) -> dict[str, Any]:
        """Return what `read_mappings` is given."""
        return {
            "tasks_per_node": self.tasks_per_node,
            "hosts": self.hosts,
            "format": self.format_of("mapping"),
            "columns": self.mapping_columns,
        }

    @property
    def bound(self) -> dict[int, int]:
        """The node of each task that stays where it is."""
        bound: dict[int, int] = {}
        for task, node in self.fixed:
            if bound.setdefault(task, node) != node:
                raise InputError(
                    "task bound to two nodes",
                    found=f"{task}={node}",
                    expected=f"{task}={bound[task]}",
                )
        return bound


@dataclass(frozen=True)
class Candidates(Placing):
    """Which mappings are looked at: those of files, or a number of our own."""

    mappings: tuple[str, ...] = option(
        f"A folder of mapping files; one file ({MAPPING_HELP}); or lines of name,node,node,... May "
        "be given several times.",
        "FILE|FOLDER",
        default=(),
    )
    candidates: int | Literal["orders"] | None = option(
        "Instead: N mappings from the strategies, of very different quality; or orders, those of "
        "the machine's launcher, such as rank-map-bynode on Fugaku.  [default: 84]",
        f"N|{ORDERS}",
        type=Amount(min=1),
        excludes=("mappings",),
    )


TIMED = "The mappings that --times is of."


@dataclass(frozen=True)
class SampleSource(Placing):
    """Where samples come from: simulated, measured, or read."""

    number: int | None = option(
        "Mappings to simulate.  [default: 168]",
        "N",
        "-n",
        type=click.IntRange(min=6),
        group="Input",
        excludes=("times",),
    )
    times: str | None = times_option("Measured times of --mappings instead", needs=("mappings",))
    mappings: tuple[str, ...] = option(TIMED, "FILE|FOLDER", default=(), needs=("times",))
    samples: str | None = option(
        "Samples: with --comm, where the simulated ones are kept (a run that was stopped goes "
        "on); else read.",
        "FILE.parquet",
        group="Input",
        excludes=("times",),
    )


@dataclass(frozen=True)
class Workers:
    """Who does the work."""

    GROUP: ClassVar = "Work"
    jobs: int = option(
        "Threads; all processors if not given.",
        "N",
        default=os.cpu_count() or 1,
        type=click.IntRange(1, MAX_JOBS),
        show_default=False,
    )
    workers: int | None = option(
        "Processes instead of threads.",
        "N",
        type=click.IntRange(1, MAX_JOBS),
        excludes=("jobs", "cluster"),
    )
    cluster: str | None = option(
        "Instead: a Dask cluster, by its scheduler's address such as "
        "tcp://host:8786, or by a file that starts one, such as slurm.toml.",
        "ADDRESS|FILE.toml",
        excludes=("jobs",),
    )


@dataclass(frozen=True)
class Seed:
    """What is drawn at random."""

    GROUP: ClassVar = "Work"
    seed: int = option(
        "Seed of everything drawn at random.", "N", default=1, type=click.IntRange(min=0)
    )


@dataclass(frozen=True)
class Work(Workers, Seed):
    """How the work is done."""

    routing: Routing = option(  # noqa: RUF009
        "Dimension order, minimal adaptive, or the second for phases with long messages.",
        default="deterministic",
    )


@dataclass(frozen=True)
class Level:
    """How sure intervals are."""

    level: float = option("Probability of the intervals.", default=0.95, type=LEVEL)
