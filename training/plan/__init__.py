"""Which mapping to run next on the machine, and when the runs are enough.

Open `planning.py` first; `next_run.py` chooses a run, `run_loop.py` makes one after the other.
"""
