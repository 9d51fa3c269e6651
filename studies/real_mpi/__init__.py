"""Real MPI programs, traced, ranked and measured on an emulated torus."""

from ..study import Study
from . import recorded, sums

STUDY = Study(
    name="real_mpi",
    title="Measured on real programs",
    text=(
        "Real MPI programs (LAMMPS twice, an all-to-all in rows and columns, a halo exchange) ran "
        "under 16 to 19 mappings each on a 4x4 torus of network namespaces with links of 5 Mbit/s "
        "and real TCP. toruscast knows the bandwidth, the packets and the routes, but neither TCP "
        "nor the time that a program computes. Each program is given twice: as a profile, which "
        "sums all bytes of the run, and as a trace with its rounds."
    ),
    needs="data",
    parts={"Order of the measured mappings": recorded.run, "What a sum hides": sums.run},
    sources=("our own measurement of November 2026",),
    files=(recorded.TIMES,),
)
