"""Dialects of task mappings."""

from .. import tenstorrent
from . import coordinates, devices, flux, hosts, node_lists, rank_order, table

DIALECTS = (
    *coordinates.DIALECTS,
    *node_lists.DIALECTS,
    table.DIALECT,
    rank_order.DIALECT,
    *hosts.DIALECTS,
    flux.DIALECT,
    *devices.DIALECTS,
    tenstorrent.BINDINGS,
)
