"""Times that were measured on a machine: read, checked for a signal, and learned from.

Open `machine.py` first; `runs.py` holds the runs, `hypotheses.py` the ways a machine may differ
from the model of its network.
"""
