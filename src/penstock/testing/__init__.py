"""The test kit: a reference engine without a JVM, and conformance suites."""

from penstock.testing.engine import Epoch, ReferenceRun, run

__all__ = ["Epoch", "ReferenceRun", "run"]
