"""Let a piece of work on files die at its so-many-th write, as the death of its process would.

From then on no write of the thread below the folder succeeds, so what the work would clean up stays as it is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_CHANGES = frozenset(
    {"os.rename", "os.link", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.symlink"}
)
_here = threading.local()
_install = threading.Lock()
_installed = False


class Died(BaseException):
    """The work is dead. Not an Exception: nobody may take it for a failure that can be handled."""


@contextmanager
def dying(below: Path, *, at_write: int) -> Iterator[None]:
    """Raise Died inside, at a write below a folder; work with fewer writes gets through."""
    with suppress(Died), _hearing(below, at_write, _die):
        yield


@contextmanager
def at_write(below: Path, number: int, do: Callable[[], None]) -> Iterator[None]:
    """Call a function before the so-many-th change to a file below a folder, and before each one after it."""
    with _hearing(below, number, do):
        yield


@contextmanager
def _hearing(below: Path, writes: int, do: Callable[[], None]) -> Iterator[None]:
    _hear()
    _here.below, _here.left, _here.do = str(below), writes, do
    try:
        yield
    finally:
        _here.below = None


def _die() -> None:
    raise Died


def _hear() -> None:
    global _installed
    with _install:
        if not _installed:  # an audit hook cannot be taken out again
            sys.addaudithook(_on_event)
            _installed = True


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    below = getattr(_here, "below", None)
    if below is None or not (event in _CHANGES or (event == "open" and _writes(args))):
        return
    if any(isinstance(arg, (str, os.PathLike)) and os.fspath(arg).startswith(below) for arg in args[:2]):
        _here.left -= 1
        if _here.left < 0:
            do, _here.below = _here.do, None  # what it does to files itself is not counted
            try:
                do()
            finally:
                _here.below = below


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    return bool(set("wax+") & set(mode)) if mode else bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
