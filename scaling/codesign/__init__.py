"""What an upgrade or a machine offers applications whose requirements are known."""
