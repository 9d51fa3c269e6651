"""``toruscast plan``."""
