"""``toruscast simulate``."""
