"""Traces of running MPI programs: recorded by ``tracer.c``, read as rounds.

Open `rounds.py` first: it turns the events of all ranks, of our own traces or of OTF2, into a
workload of dependent rounds. `formats/graphs/trace.py` reads
the files that the tracer writes.
"""

from .rounds import Events, Rounds, rounds_of

__all__ = ["Events", "Rounds", "rounds_of"]
