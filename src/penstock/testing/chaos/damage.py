"""Files that are not what was written: lost, torn, doubled, with a flipped bit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.control.spark_files import sidecar_of
from penstock.errors import PenstockError

Kind = Literal["tear", "flip", "double"]
_LOGS = ("progress", "console", "incidents", "driver", "spark")
"""What only people read; a damaged line of it is passed over."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file that was damaged, with what it held."""

    path: Path
    content: bytes

    def mend(self) -> None:
        """Put back what the file held, as an operator would from a copy."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self.content)

    def is_named_by(self, error: PenstockError) -> bool:
        """Whether an error names the file; of checksums, the file that they are of."""
        named = error.parameters.get("path")
        return named is not None and self.path in (Path(named), sidecar_of(Path(named)))


def damage(directory: Path, kind: Kind, source: random.Random) -> Damaged:
    """Damage one file that must outlive its run; each kind of file is as likely as any other."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        if _matters(path, directory):
            relative = path.relative_to(directory)
            place = relative.parts[0] if relative.parts[0] != "checkpoint" else "/".join(relative.parts[:2])
            kinds.setdefault(place, []).append(path)
    # The newest ones are those that a restart reads.
    path = source.choice(sorted(kinds[source.choice(sorted(kinds))], key=lambda p: p.stat().st_mtime_ns)[-6:])
    content = path.read_bytes()
    path.write_bytes(_damaged(content, kind, source))
    return Damaged(path, content)


def lose_last_commit(checkpoint: Path) -> None:
    """Leave what a driver leaves that died before it wrote its commit log."""
    commits = checkpoint / "commits"
    last = max((int(path.name) for path in commits.glob("[0-9]*")), default=None)
    if last is not None:
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)


def _matters(path: Path, directory: Path) -> bool:
    relative = path.relative_to(directory)
    if not path.is_file() or path.stat().st_size == 0 or relative.parts[0] in ("collect", "handover"):
        return False
    return not relative.parts[0].startswith(_LOGS) and relative.suffix not in (".tmp", ".properties")


def _damaged(content: bytes, kind: Kind, source: random.Random) -> bytes:
    if kind == "tear":
        return content[: source.randrange(len(content))]
    if kind == "double":
        return content + content
    place = source.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << source.randrange(8)]) + content[place + 1 :]
