"""Search for better mappings, explanations of a mapping's time, and the gap to lower bounds.

Open `search.py` first; `starts.py` makes mappings, `annealing.py` improves them, and `explain.py`
shows the links and tasks that determine a time. `routing/bounds.py` has bounds over all mappings.
"""
