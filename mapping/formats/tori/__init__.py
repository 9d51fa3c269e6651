"""Dialects of tori, a file each."""

from .. import tenstorrent
from . import machine_file, scotch, simulators, sst

DIALECTS = (
    *machine_file.DIALECTS,
    scotch.DIALECT,
    *simulators.DIALECTS,
    sst.DIALECT,
    tenstorrent.MESH,
)
