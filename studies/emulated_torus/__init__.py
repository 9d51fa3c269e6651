"""Times measured on an emulated torus, forecast from the features of a simulation."""

from ..study import Study
from . import forecasts, measured

STUDY = Study(
    name="emulated_torus",
    title="Times measured on an emulated torus",
    text=(
        "The torus is emulated by 64 network namespaces on one machine, arranged as 4x4x4 and "
        "linked by pairs of virtual interfaces with 5 Mbit/s in each direction and real TCP. Two "
        "communication patterns ran with 57 mappings each, and each mapping was measured at "
        "least six times. Features and simulated times come from toruscast. It models the "
        "bandwidth, the packets and the routes, but not TCP."
    ),
    needs="data",
    parts={"Learned from two thirds of the mappings": forecasts.run},
    sources=("our own measurement of November 2026",),
    files=(measured.TIMES, measured.MAPPINGS),
)
