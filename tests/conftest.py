"""What all tests share."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

from tests import bounds

settings.register_profile("penstock", deadline=None)  # tests are never timed: machines are busy
settings.load_profile("penstock")
os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before polars is imported: the tests share the cores

if bounds.is_wanted():
    bounds.refuse_negative_indices()


def pytest_sessionfinish() -> None:
    """Note which kernels ran with bounds checks."""
    bounds.record()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell how many random cases the operators on event time went through."""
    properties = [p for report in terminalreporter.getreports("passed") for p in report.user_properties]
    counts = [value for name, value in properties if name == "any order"]
    if counts:
        cases, chains = (sum(count[i] for count in counts) for i in (0, 1))
        seeds = ", ".join(str(count[2]) for count in counts)
        terminalreporter.write_line(f"any order: {cases:,} cases in {chains:,} random chains, seeds {seeds}")
