"""``toruscast rank``."""
