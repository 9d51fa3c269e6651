"""Models of parallel programs, composed from the models of their tasks."""
