"""Dialects of communication graphs, a file each."""

from . import edges, matrix, matrix_market, npz, open_mpi, table

DIALECTS = (
    open_mpi.DIALECT,
    edges.DIALECT,
    table.DIALECT,
    matrix.DIALECT,
    matrix_market.DIALECT,
    npz.DIALECT,
)
