"""A better mapping than those at hand, why a mapping is slow, and how far it can be improved.

Open `search.py` first; `annealing.py` and `multilevel.py` improve mappings, `explain.py` names the
links and tasks behind a time. `routing/mapping_bounds.py` has bounds over all mappings.
"""
