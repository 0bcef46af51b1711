"""Spark's offset log: what each epoch reads, and under which version it runs."""

from __future__ import annotations

from typing import Any

from penstock.control import checkpoint
from penstock.control.run_directory import RunDirectory


def read_offset(directory: RunDirectory, epoch: int) -> dict[str, Any]:
    """The offset of Penstock's source for an epoch. Raises LookupError if the entry has none."""
    return checkpoint.read_offset(directory.checkpoint, epoch)
