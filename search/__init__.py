"""A better mapping than those at hand, why a mapping is slow, and how far it can be improved.

Open `search.py` first; `starts.py` makes mappings, `annealing.py` improves them, and `explain.py`
names the links and tasks behind a time. `routing/bounds.py` has bounds over all mappings.
"""
