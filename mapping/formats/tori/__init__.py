"""Dialects of tori, a file each."""

from . import machine_file, scotch, simulators, sst, tenstorrent

DIALECTS = (
    *machine_file.DIALECTS,
    scotch.DIALECT,
    *simulators.DIALECTS,
    sst.DIALECT,
    tenstorrent.DIALECT,
)
