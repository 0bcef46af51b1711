"""A small disk that can be filled: a file system in memory, mounted for the harness alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_BLOCK = b"\0" * (64 << 10)


class SmallDisk:
    """A mounted folder of a few megabytes; needs the rights to mount."""

    def __init__(self, megabytes: int = 64) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="penstock-disk-"))
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(self.path)]
        subprocess.run(command, check=True, capture_output=True)

    @staticmethod
    def lacking() -> str:
        """Why there can be none here; nothing if there can."""
        if os.geteuid() != 0 or shutil.which("mount") is None:
            return "mounting a small disk needs root"
        return ""

    def close(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True, capture_output=True)
        self.path.rmdir()


def fill(folder: Path) -> Path:
    """Take all room that is left on the disk of a folder; gives the file that holds it."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for piece in (_BLOCK, b"\0"):
            try:
                while file.write(piece):
                    pass
            except OSError:
                continue
    return ballast
