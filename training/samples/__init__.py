"""Samples to learn from: features and times of many mappings, drawn, simulated and kept on disk.

Open `application.py` first: it draws mappings of one application and learns from their times.
`samples.py` makes one table, `store.py` keeps it.
"""
