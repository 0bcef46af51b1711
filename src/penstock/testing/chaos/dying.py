"""Let a piece of work on files die at its so-many-th write, as the death of its process would.

From then on no write of the thread below the folder succeeds, so what the work would clean up stays as it is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
    _hear()
    _here.below, _here.left = str(below), at_write
    try:
        yield
    except Died:
        pass
    finally:
        _here.below = None


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
            raise Died


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    return bool(set("wax+") & set(mode)) if mode else bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
