"""Dialects of task mappings."""
