"""Spark's offset log: what each epoch reads, and under which version it runs."""

from __future__ import annotations

import json
from typing import Any

from penstock.control.run_directory import RunDirectory


def read_offset(directory: RunDirectory, epoch: int) -> dict[str, Any]:
    """The offset of Penstock's source for an epoch. Raises LookupError if the entry has none."""
    lines = (directory.checkpoint / "offsets" / str(epoch)).read_text().splitlines()
    for line in lines[2:]:  # after the format and the settings, one line per source
        offset = json.loads(line)
        if isinstance(offset, dict) and "version" in offset:
            return offset
    raise LookupError(f"epoch {epoch} has no version in its offset log")
