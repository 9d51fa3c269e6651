"""``toruscast codesign``."""
