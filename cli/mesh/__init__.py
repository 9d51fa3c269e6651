"""``toruscast mesh``: how to lay the axes of a sharded model over a torus."""
