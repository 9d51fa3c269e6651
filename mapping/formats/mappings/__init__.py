"""Dialects of task mappings, a file each."""

from . import table

DIALECTS = table.DIALECTS
