"""Answers: results as sentences, tables and charts for terminals, pages and figures.

Start with ``blocks.py``, which defines answers. Each kind of result has a module that makes its
answer; ``terminal.py``, ``html.py`` and ``figures.py`` write answers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
