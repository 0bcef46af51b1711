"""From a topology to what Spark runs: named pure passes, and the program they make."""

from penstock.plan.explain import explain
from penstock.plan.passes import plan

__all__ = ["explain", "plan"]
