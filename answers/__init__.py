"""Answers: made once from a result, drawn for a terminal, as a page and as figures.

Open ``blocks.py`` first: what an answer is. A file a result makes one; ``terminal.py`` and
``html.py`` draw it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
