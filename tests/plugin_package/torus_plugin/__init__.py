"""What an installed package may add."""
