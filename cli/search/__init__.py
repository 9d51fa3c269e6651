"""``toruscast search``."""
