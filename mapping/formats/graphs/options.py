"""What the reader of a graph is told besides the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toruscast.errors import InputError

Include = Literal["all", "point_to_point", "collective"]
AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class GraphOptions:
    """Options of `read_comm`; a dialect that cannot use one refuses it."""

    name: str = ""
    n_tasks: int | None = None
    include: Include = "all"
    messages: AnyPath | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the file's columns by ours, for tables."""
    duplicates: Literal["refuse", "sum"] = "refuse"
    """Whether pairs that stand several times are added up."""
    collectives: Mapping[str, str] = field(default_factory=dict)
    """Algorithms by collective, such as {"allreduce": "ring"}."""

    def refuse_columns(self, path: AnyPath) -> None:
        """Raise `InputError` if columns were named of what has none."""
        if self.columns:
            found = ", ".join(self.columns.values())
            raise InputError("no table with named columns", file=path, found=found)

    def refuse_messages(self) -> None:
        """Raise `InputError` if message counts were given, which only matrices take."""
        if self.messages is not None:
            raise InputError("message counts stand apart for matrices only", file=self.messages)

    def refuse_include(self, path: AnyPath) -> None:
        """Raise `InputError` if a part was chosen of what does not tell parts apart."""
        if self.include != "all":
            raise InputError(
                "no monitoring output, so there is nothing to select",
                file=path,
                found=self.include,
                expected="all",
            )
