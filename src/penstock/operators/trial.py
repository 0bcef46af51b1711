"""Try the user's code in a process of its own, to learn whether it kills the process that it runs in.

`python -m penstock.operators.trial` is that process. A fork would not do: Polars does not survive one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

import cloudpickle
import polars as pl

_LENGTH = struct.Struct("<Q")
_SURVIVED = b"+"


class ProcessTrial:
    """Runs work on batches elsewhere; the process is used again until some work kills it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def death_of(self, work: Callable[[pl.DataFrame], Any], batch: pl.DataFrame) -> str | None:
        """How the process that ran the work died; None if it did not, whatever the work raised.

        Work that cannot be sent to another process is not tried.
        """
        try:
            body = cloudpickle.dumps((work, batch))
        except (pickle.PicklingError, TypeError, AttributeError):
            return None
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(_LENGTH.pack(len(body)) + body)
            process.stdin.flush()
        if process.stdout.read(1) == _SURVIVED:
            return None
        self._process = None
        process.stdin.close()
        process.stdout.close()
        code = process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __getstate__(self) -> dict[str, Any]:
        """Work that is tried may refer to what refers to this; the process stays here."""
        return {"_process": None}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.operators.trial"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Do the work that comes in, and say so each time it was survived."""
    while head := requests.read(_LENGTH.size):
        with contextlib.suppress(Exception):  # ordinary failures are dealt with where the work is done
            work, batch = pickle.loads(requests.read(_LENGTH.unpack(head)[0]))
            work(batch)
        answers.write(_SURVIVED)
        answers.flush()


if __name__ == "__main__":
    sys.stdout = sys.stderr  # the user's code may print
    with os.fdopen(os.dup(0), "rb") as mine_in, os.fdopen(os.dup(1), "wb") as mine_out:
        # Native code knows descriptors: a byte of its own would be taken for an answer, and with one byte too
        # many, every later death for survival. What it reads would be a part of the next request.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        serve(mine_in, mine_out)
