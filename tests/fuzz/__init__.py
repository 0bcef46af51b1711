"""Fuzzing of the whole way from a capture to applications: ``make fuzz``."""
