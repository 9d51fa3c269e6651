"""Times measured on an emulated torus, forecast from the features of a simulation."""

from ..study import Study
from . import forecasts, measured

STUDY = Study(
    name="emulated_torus",
    title="Times measured on an emulated torus",
    text=(
        "A 4x4x4 torus of 64 network namespaces on one machine, linked by pairs of virtual "
        "interfaces with 5 Mbit/s each way and real TCP. Two patterns under 57 mappings, each "
        "measured six times or more. Features and simulated times come from toruscast, which "
        "knows the bandwidth, the packets and the routes, but nothing of TCP."
    ),
    needs="data",
    parts={"Learned from two thirds of the mappings": forecasts.run},
    sources=("our own measurement of November 2026",),
    files=(measured.TIMES, measured.MAPPINGS),
)
