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
    metis,
    mpip,
    npz,
    open_mpi,
    otf2,
    parquet,
    scotch,
    table,
)

DIALECTS = (
    open_mpi.DIALECT,
    edges.DIALECT,
    table.DIALECT,
    matrix.DIALECT,
    matrix_market.DIALECT,
    npz.DIALECT,
    parquet.DIALECT,
    metis.DIALECT,
    scotch.DIALECT,
    mpip.DIALECT,
    graph_stats.DIALECT,
    ipm.DIALECT,
    goal.DIALECT,
    hlo.DIALECT,
    chakra.DIALECT,
    otf2.DIALECT,
)
