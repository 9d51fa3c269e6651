"""How much memory this process can still have."""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def available() -> float:
    """Return the bytes that this process can still have; infinite where nobody tells.

    That is the least of what the system has left, what a control group leaves, and the limit of the
    process itself (``ulimit -v``).

    Examples
    --------
    >>> available() > 0
    True
    """
    return min(_of_system(), _of_group(), _of_process())


def _of_system() -> float:
    with suppress(OSError, ValueError, IndexError):
        lines = _MEMINFO.read_text().splitlines()
        return 1024 * float(next(x for x in lines if x.startswith("MemAvailable")).split()[1])
    if hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return inf


def _of_group() -> float:
    with suppress(OSError, ValueError):
        most, now = (float((_CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        return most - now
    return inf


def _of_process() -> float:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return inf
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return float(most - pages * resource.getpagesize())
    return inf
