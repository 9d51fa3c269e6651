"""What latency and bandwidth of the interconnect cost an application."""
