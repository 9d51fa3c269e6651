"""Models of parallel programs, composed of the models of their tasks."""
