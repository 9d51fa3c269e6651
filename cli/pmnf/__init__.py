"""``toruscast pmnf``."""
