"""Real MPI programs, traced, ranked and measured on an emulated torus."""

from ..study import Study
from . import live, network, recorded, sums

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
LIVE = Study(
    name="real_mpi_live",
    title="Traced, ranked, launched and measured on this machine",
    text=(
        "Real MPI programs run on a torus of network namespaces that is made for them, with links "
        "of 5 Mbit/s and real TCP. Each is traced by `toruscast trace` in the default order, "
        "ranked and searched from its rounds, launched with the hostfile of each mapping, and "
        "timed by its own loop; all runs come in shuffled order. `--live` chooses the torus and "
        f"the programs: {', '.join(live.SETUPS)}."
    ),
    needs="program",
    parts={"Measured anew": live.run},
    missing=network.missing,
)
