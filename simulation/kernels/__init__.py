"""The compiled loop of the packet simulator: one event at a time over one state."""
