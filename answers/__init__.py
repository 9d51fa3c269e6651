"""Answers: results as sentences, tables and charts for terminals, pages and figures.

Start with ``blocks.py``, which defines answers. The module for each result makes its answer, and
``terminal.py``, ``html.py`` and ``figures.py`` write it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
