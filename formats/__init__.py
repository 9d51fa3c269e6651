"""Readers and writers of communication graphs and task mappings."""

from .readers import (
    read_comm,
    read_hosts,
    read_mapping,
    read_mappings,
    read_torus,
    read_workload,
    torus,
    write_comm,
    write_mapping,
    write_mappings,
    write_torus,
)
from .times import read_runs, read_times

__all__ = [
    "read_comm",
    "read_hosts",
    "read_mapping",
    "read_mappings",
    "read_runs",
    "read_times",
    "read_torus",
    "read_workload",
    "torus",
    "write_comm",
    "write_mapping",
    "write_mappings",
    "write_torus",
]
