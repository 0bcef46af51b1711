"""Benchmarks: each measures one figure that the project promises."""
