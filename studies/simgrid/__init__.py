"""SimGrid, an independent simulator of flows, beside ours."""

from ..study import Study
from . import applications, single
from .engine import missing

STUDY = Study(
    name="simgrid",
    title="SimGrid beside our simulators",
    text=(
        "SimGrid (Casanova, Giersch, Legrand, Quinson and Suter, J. Parallel Distrib. Comput. 74, "
        "2014) simulates connections that share links. Both engines get the same messages, all "
        "posted at once, over a torus of 2 GB/s a link each way and 50 ns a hop, one task a node. "
        "SimGrid runs its model CM02, without cross-traffic but where a column says otherwise. "
        "**All times are simulated; none was measured on a machine.**"
    ),
    needs="program",
    parts={"Messages one by one": single.run, "Captured applications": applications.run},
    sources=("SimGrid 3.32 of Debian (libsimgrid-dev, LGPL), called by flows.cpp of this study",),
    missing=missing,
)
