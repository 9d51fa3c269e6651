"""Routes and link counters of Blue Gene."""
