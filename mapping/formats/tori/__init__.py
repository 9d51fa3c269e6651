"""Dialects of tori, a file each."""

from . import astra, machine_file, scotch, simgrid, sst, tenstorrent

DIALECTS = (
    *machine_file.DIALECTS,
    scotch.DIALECT,
    simgrid.DIALECT,
    astra.DIALECT,
    sst.DIALECT,
    tenstorrent.DIALECT,
)
