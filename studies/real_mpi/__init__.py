"""Real MPI programs, traced, ranked and measured on an emulated torus."""

from ..study import Study
from . import live, network, recorded, sums

STUDY = Study(
    name="real_mpi",
    title="Predictions compared with measured times of MPI programs",
    text=(
        "Real MPI programs (LAMMPS twice, an all-to-all in rows and columns, and a halo "
        "exchange) ran with 16 to 19 mappings each on a 4x4 torus of network namespaces, with "
        "links of 5 Mbit/s and real TCP. toruscast models the bandwidth, the packets and the "
        "routes, but not TCP or the computation of a program. Each program is predicted from two "
        "inputs: a profile, which has the sum of all bytes of the run, and a trace, which also "
        "has the rounds of messages."
    ),
    needs="data",
    parts={"Order of the measured mappings": recorded.run, "What a sum hides": sums.run},
    sources=("our own measurement of November 2026",),
    files=(recorded.TIMES,),
)
LIVE = Study(
    name="real_mpi_live",
    title="MPI programs traced, ranked, launched and measured",
    text=(
        "Real MPI programs run on a torus of network namespaces, which the study creates, with "
        "links of 5 Mbit/s and real TCP. `toruscast trace` records each program in the default "
        "order. Mappings are ranked and searched from the rounds of this trace. The program is "
        "launched with the hostfile of each mapping, and measures the time of its own loop. All "
        "runs are in random order. `--live` selects the torus and the programs: "
        f"{', '.join(live.SETUPS)}."
    ),
    needs="program",
    parts={"Measured anew": live.run},
    missing=network.missing,
)
