"""Worker processes end with the process that started them, however that ended."""

from __future__ import annotations

import os
import threading
import time

_EVERY = 0.5
_watched = False


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent has, which may have had no time to say so.

    It may have ended already, while this process began: then another one has taken its place, such
    as the system's first process.
    """
    global _watched
    if os.getppid() != parent:
        os._exit(1)
    if not _watched:
        _watched = True
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os._exit(1)
