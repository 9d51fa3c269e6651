"""The door for HLO text: the collectives of a compiled program."""

from __future__ import annotations

import os
import time

from toruscast.files import note_read

from ..hlo import HloStep, step_of
from .opening import as_text, read_text


def read_hlo(path: str | os.PathLike[str]) -> HloStep:
    """Read the collectives of an HLO text dump.

    Raises
    ------
    InputError
        If the file cannot be read or is no such dump, or a collective's groups or sizes cannot be
        told.
    """
    began = time.perf_counter()
    step = step_of(read_text(path))
    note_read("HLO", path, began, collectives=len(step.collectives))
    return step


def parse_hlo(text: str) -> HloStep:
    """Return the collectives of HLO text.

    Raises
    ------
    InputError
        As of `read_hlo`.

    Examples
    --------
    >>> step = parse_hlo('''HloModule jit_f, num_partitions=4
    ... ENTRY %main (p: f32[8]) -> f32[32] {
    ...   %p = f32[8]{0} parameter(0)
    ...   ROOT %ag = f32[32]{0} all-gather(%p), replica_groups=[1,4]<=[4], dimensions={0}
    ... }''')
    >>> [(each.name, each.kind, each.nbytes) for each in step.collectives], step.n_devices
    ([('ag', 'allgather', 128.0)], 4)
    """
    return step_of(as_text("HLO text", text.encode()))
