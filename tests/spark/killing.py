"""Kill an app of the tests in the middle, and let it go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def killed_and_continued(app: Path, *arguments: object) -> None:
    """Run a script until it says that its second epoch is committed, kill its group, run it to its end."""
    command = [sys.executable, str(app), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    assert first.stdout is not None
    for line in first.stdout:
        if line.startswith("epoch 1"):
            break
    else:
        pytest.fail(f"{app.name} ended before its second epoch, with {first.wait()}")
    assert first.poll() is None, "it ended before it could be killed"
    os.killpg(first.pid, signal.SIGKILL)
    first.stdout.close()
    first.wait()
    subprocess.run(command, check=True, env=environment, timeout=200, stdout=subprocess.DEVNULL)
