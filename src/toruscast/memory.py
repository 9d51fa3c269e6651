"""How much memory this process can still have."""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
# Where they are, their limit, what is used, and how much of that is files that can be dropped.
_SECOND = ("", "memory.max", "memory.current", "inactive_file")
_FIRST = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_MEMINFO = Path("/proc/meminfo")


def available() -> float:
    """Return the bytes that this process can still have; infinite where nobody tells.

    That is the least of what the system has left, what the control groups leave that this process
    is in, such as those of a container or a batch job, and its own limit (``ulimit -v``).

    Examples
    --------
    >>> available() > 0
    True
    """
    return max(min(_of_system(), _of_groups(), _of_process()), 0.0)


def _of_system() -> float:
    with suppress(OSError, ValueError, IndexError):
        lines = _MEMINFO.read_text().splitlines()
        return 1024 * float(next(x for x in lines if x.startswith("MemAvailable")).split()[1])
    if hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return inf


def _of_groups() -> float:
    left = inf
    with suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            for kind, *names in (_SECOND, _FIRST):
                if kind in kinds.split(","):
                    root = _CGROUP / kind
                    inner = root / path.strip("/")
                    places = [inner, *inner.parents]
                    for place in places[: places.index(root) + 1]:
                        left = min(left, _of_group(place, *names))
    return left


def _of_group(place: Path, most: str, now: str, files: str) -> float:
    with suppress(OSError, ValueError):
        limit, used = (float((place / name).read_text()) for name in (most, now))
        lines = (place / "memory.stat").read_text().splitlines()
        return limit - used + float(dict(line.split() for line in lines).get(files, 0))
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
