"""Logs of lines that processes append to, and that a crash or a full disk may cut anywhere."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.connect.private import open_private


def append_line(path: Path, line: bytes, *, durably: bool = False) -> None:
    """Add a line, in one write; what was left of half a line does not spoil it."""
    with open(path, "a+b", opener=open_private) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        torn = file.read() not in (b"", b"\n")
        file.write(b"\n" * torn + line + b"\n")
        if durably:
            file.flush()
            os.fsync(file.fileno())
