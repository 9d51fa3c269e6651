"""SimGrid, an independent simulator of flows, beside ours."""

from ..study import Study
from . import applications, single
from .engine import missing

STUDY = Study(
    name="simgrid",
    title="SimGrid compared with our simulators",
    text=(
        "SimGrid (Casanova, Giersch, Legrand, Quinson and Suter, J. Parallel Distrib. Comput. "
        "74, 2014) simulates connections that share links. SimGrid and our simulators get the "
        "same messages, which all start at the same time, one task per node, on a torus with 2 "
        "GB/s per link and direction and 50 ns per hop. SimGrid uses its model CM02. Its "
        "cross-traffic is off unless a column says otherwise. **All times are simulated; none "
        "was measured on a machine.**"
    ),
    needs="program",
    parts={"Messages one by one": single.run, "Captured applications": applications.run},
    sources=("SimGrid 3.32 of Debian (libsimgrid-dev, LGPL), called by flows.cpp of this study",),
    missing=missing,
)
