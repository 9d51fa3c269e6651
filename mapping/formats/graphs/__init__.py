"""Dialects of communication graphs."""

from . import chakra, edges, goal, hlo, matrix, otf2, parquet, partitioners, profiles, trace

DIALECTS = (
    profiles.OPEN_MPI,
    edges.EDGES,
    edges.TABLE,
    *matrix.DIALECTS,
    parquet.DIALECT,
    *partitioners.DIALECTS,
    profiles.MPIP,
    profiles.GRAPH_STATS,
    profiles.IPM,
    goal.DIALECT,
    hlo.DIALECT,
    chakra.DIALECT,
    otf2.DIALECT,
    trace.DIALECT,
)
