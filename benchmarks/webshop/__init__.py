"""Benchmark of the two ALFWorld engines."""
