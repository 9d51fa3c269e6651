"""The machine and the versions that results were made with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import toruscast

_PACKAGES = ("numpy", "scipy", "pandas", "numba", "scikit-learn", "networkx")


def describe_machine() -> dict[str, str]:
    """Return processor, cores, system and the versions of what computes.

    Returns
    -------
    dict of str to str
        ``cpu``, ``cores`` and ``system``, then ``toruscast``, ``Python`` and packages; what is not
        installed is left out.

    Examples
    --------
    >>> int(describe_machine()["cores"]) > 0
    True
    """
    versions = {"toruscast": toruscast.__version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _processor(),
        "cores": str(os.cpu_count() or 1),
        "system": f"{platform.system()} {platform.machine()}",
        **versions,
    }


def _processor() -> str:
    """Return the name of the processor; Linux keeps it in a file."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return name
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or name
