"""Readers and writers of communication graphs and task mappings."""

from .comm import read_comm, read_workload, write_comm
from .mapping import (
    read_hosts,
    read_mapping,
    read_mappings,
    write_mapping,
    write_mappings,
)
from .times import read_runs, read_times
from .torus import read_torus, write_torus

__all__ = [
    "read_comm",
    "read_hosts",
    "read_mapping",
    "read_mappings",
    "read_runs",
    "read_times",
    "read_torus",
    "read_workload",
    "write_comm",
    "write_mapping",
    "write_mappings",
    "write_torus",
]
