"""Carries a program out: fused parts, slices and their state. Spark and the test kit share it."""
