"""Messages that share links as connections do."""
