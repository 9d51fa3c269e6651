"""Which mapping to run next on the machine, and when the runs are enough.

Open `next_run.py` first: it chooses a run; `run_loop.py` makes one after the other.
"""
