"""Dialects of task mappings, a file each."""

from . import (
    bluegene,
    devices,
    flux,
    host_lists,
    labelled,
    maplib,
    nodes,
    rank_order,
    rankfile,
    scotch,
    sst,
    table,
    tenstorrent,
    vcoord,
)

DIALECTS = (
    bluegene.DIALECT,
    *nodes.DIALECTS,
    table.DIALECT,
    maplib.DIALECT,
    rank_order.DIALECT,
    rankfile.DIALECT,
    *host_lists.DIALECTS,
    labelled.DIALECT,
    flux.DIALECT,
    vcoord.DIALECT,
    sst.DIALECT,
    *scotch.DIALECTS,
    *devices.DIALECTS,
    tenstorrent.DIALECT,
)
