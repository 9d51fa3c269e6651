"""Cost of the interconnect's latency and bandwidth for an application."""
