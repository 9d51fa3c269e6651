"""Dialects of communication graphs, a file each."""

from . import (
    chakra,
    edges,
    goal,
    graph_stats,
    hlo,
    ipm,
    matrix,
    matrix_market,
    mpip,
    npz,
    open_mpi,
    otf2,
    parquet,
    partitioners,
    table,
    trace,
)

DIALECTS = (
    open_mpi.DIALECT,
    edges.DIALECT,
    table.DIALECT,
    *matrix.DIALECTS,
    matrix_market.DIALECT,
    npz.DIALECT,
    parquet.DIALECT,
    *partitioners.DIALECTS,
    mpip.DIALECT,
    graph_stats.DIALECT,
    ipm.DIALECT,
    goal.DIALECT,
    hlo.DIALECT,
    chakra.DIALECT,
    otf2.DIALECT,
    trace.DIALECT,
)
