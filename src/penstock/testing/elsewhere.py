"""Run a function in another process, as a worker would: other memory, other hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle

_SCRIPT = """
import sys
import cloudpickle
path, body = cloudpickle.load(sys.stdin.buffer)
sys.path[:] = path
function, args = cloudpickle.loads(body)
sys.stdout.buffer.write(cloudpickle.dumps(function(*args)))
"""


def run_elsewhere(function: Callable[..., Any], *args: Any, timeout_s: float = 120.0) -> Any:
    """The function's answer from a new Python with another hash seed."""
    sent = cloudpickle.dumps((sys.path, cloudpickle.dumps((function, args))))
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], input=sent, capture_output=True, timeout=timeout_s, check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"it fails in another process:\n{done.stderr.decode(errors='replace')}")
    return cloudpickle.loads(done.stdout)
