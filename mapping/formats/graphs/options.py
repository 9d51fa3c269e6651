"""What the reader of a graph is told besides the file."""

from __future__ import annotations

import os
from dataclasses import dataclass
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
