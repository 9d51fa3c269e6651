"""The names of a job's hosts from a file."""

from __future__ import annotations

import os

from ..hosts import Hosts
from ..task_mapping import check_torus
from ..torus import Torus
from ._source import check_path
from .host_table import are_names, is_table, read_names
from .registry import identify, reader_of
from .source import Source


def read_hosts(path: str | os.PathLike[str], torus: Torus) -> Hosts:
    r"""Read the names of a job's hosts and the node of each, in the order of the file.

    Parameters
    ----------
    path : path-like
        A table below the names of its columns: ``host``, and ``x``, ``y``, ``z`` (the dimensions
        of the torus) or ``node``; or, where there are as many as nodes, names alone.
    torus : Torus
        The machine.

    Raises
    ------
    InputError
        If the file cannot be read or is none, a host stands twice, or a node is not one of the
        torus.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "hosts.csv"
    >>> _ = path.write_text("host,x,y\nc01,0,1\nc10,1,0\n")
    >>> read_hosts(path, Torus((2, 2))).node.tolist()
    [1, 2]
    """
    check_path(path)
    check_torus(torus)
    source = Source(path, torus=torus)
    # Names alone may be the hosts of tasks as well; whoever asks for hosts means hosts.
    if not is_table(source) and are_names(source):
        return read_names(source, torus)
    hosts: Hosts = reader_of(identify(source, "hosts"))(source, torus)
    return hosts
