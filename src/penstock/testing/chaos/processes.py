"""The processes of a run, for those who want to end or stop them."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

_PR_SET_PDEATHSIG = 1


def python_workers(root: int) -> list[psutil.Process]:
    """Python processes that Spark has started below a process."""
    return [p for p in _below(root) if _line(p, "daemon") or _line(p, "pyspark")]


def executors(root: int) -> list[psutil.Process]:
    """JVMs that run tasks for a cluster's application."""
    return [p for p in _below(root) if _line(p, "CoarseGrainedExecutorBackend")]


def jvms(root: int) -> list[psutil.Process]:
    """JVMs of drivers below a process."""
    return [p for p in _below(root) if _line(p, "SparkSubmit")]


def strike(
    victims: list[psutil.Process], signal_: signal.Signals, source: random.Random
) -> psutil.Process | None:
    """Send a signal to one of them."""
    while victims:
        victim = victims.pop(source.randrange(len(victims)))
        with suppress(psutil.NoSuchProcess):
            victim.send_signal(signal_)
            return victim
    return None


def wake(pid: int) -> None:
    """Let a stopped process go on, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def signal_group(pid: int, signal_: signal.Signals) -> None:
    """Send a signal to a process and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal_)


def wait_until(condition: Callable[[], object], *, timeout_s: float, every_s: float = 0.02) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def end_with_parent() -> None:
    """Have this process killed should the one that started it be (Linux; elsewhere it stays behind)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _below(root: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(root).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def _line(process: psutil.Process, word: str) -> bool:
    try:
        line: list[str] = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    is_python = "python" in os.path.basename(line[0]) if line else False  # noqa: PTH119 - a word, not a path
    return any(word in part for part in line) and (is_python or word[0].isupper())
