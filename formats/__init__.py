"""Readers and writers of communication graphs and task mappings."""

from .readers import (
    parse_torus,
    read_comm,
    read_hosts,
    read_mapping,
    read_mappings,
    read_torus,
    read_workload,
    write_comm,
    write_mapping,
    write_mappings,
    write_torus,
)
from .times import read_runs, read_times

__all__ = [
    "parse_torus",
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
