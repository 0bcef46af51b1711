"""What processes of a run find in their environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_AS_WORKER = (
    "import os, polars; from penstock.spark.session import polars_keeps_memory as keeps;"
    "print(keeps(keeps(os.environ['_RJEM_MALLOC_CONF'])))"
)


@pytest.mark.parametrize(
    ("users", "found"),
    [
        ("", "dirty_decay_ms:20000"),
        ("dirty_decay_ms:0", "dirty_decay_ms:20000,dirty_decay_ms:0"),  # the last one counts
        ("narenas:2", "dirty_decay_ms:20000,narenas:2"),
    ],
)
def test_polars_keeps_memory_unless_the_user_says_otherwise(users: str, found: str) -> None:
    environment = {**os.environ, "_RJEM_MALLOC_CONF": users}
    told = subprocess.run(
        [sys.executable, "-c", _AS_WORKER], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == found
