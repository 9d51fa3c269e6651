"""Studies: published experiments and public measurements, repeated with the public API.

``python -m studies run all --out DIR --data FOLDER`` writes the pages of ``studies/results``.
"""

from pathlib import Path

from . import (
    blue_gene,
    blue_waters,
    emulated_torus,
    fugaku,
    real_mpi,
    sc13,
    simgrid,
    small_large,
    unseen,
)
from .study import Study

_ROOMS = (
    sc13,
    fugaku,
    blue_waters,
    blue_gene,
    emulated_torus,
    real_mpi,
    simgrid,
    unseen,
    small_large,
)
STUDIES: dict[str, Study] = {
    study.name: study for study in (*(room.STUDY for room in _ROOMS), real_mpi.LIVE)
}
SAMPLES = Path(__file__).parent / "sc13" / "samples.parquet"
"""The table of simulated samples from ``python -m studies build``."""

__all__ = ["SAMPLES", "STUDIES", "Study"]
