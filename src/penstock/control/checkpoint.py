"""What a checkpoint of Spark's holds at an epoch boundary, and what of it is tied to its place."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

from penstock.control.spark_files import fault_of, write_checked
from penstock.control.way_back import way_back
from penstock.errors import RunDirectoryBroken

_STATE_VERSION = re.compile(r"\.?(\d+)(?:_[^.]+)?\.(?:changelog|zip|delta|snapshot)(?:\.crc)?")
_NUMBERED = re.compile(r"\.?(\d+)(?:\.crc)?")
_SCHEMA_PATHS = "stateSchemaFilePaths"


def last_committed(checkpoint: Path) -> int | None:
    """The newest epoch that is done."""
    return max(_numbers(checkpoint / "commits"), default=None)


def last_planned(checkpoint: Path) -> int | None:
    """The newest epoch that was begun."""
    return max(_numbers(checkpoint / "offsets"), default=None)


def next_epoch(checkpoint: Path) -> int:
    """What a run that starts now begins with: an epoch that was begun and not done, or a new one."""
    begun = last_planned(checkpoint)
    if begun is None:
        return 0
    return begun + 1 if begun == last_committed(checkpoint) else begun


def belongs(name: str, epoch: int) -> bool:
    """Whether a file, by its place in the checkpoint, is part of what was there after an epoch.

    What lies beyond it was left by an epoch that is not committed. Spark would repeat that epoch and write
    the same; a run that goes on elsewhere plans it anew, and must not find what the other one made.
    """
    *folders, last = name.split("/")
    if last.removesuffix(".crc").endswith(".tmp"):
        return False
    if folders[:1] in (["offsets"], ["commits"]) or "_metadata" in folders:
        found = _NUMBERED.fullmatch(last)
        return found is None or int(found[1]) <= epoch
    found = _STATE_VERSION.fullmatch(last)
    return found is None or int(found[1]) <= epoch + 1


def check(directory: Path) -> None:
    """Raise RunDirectoryBroken, naming the file, if what Spark reads at a start is damaged.

    Files of the state are checked by Spark when it reads them; there may be many gigabytes of them.
    """
    checkpoint = directory / "checkpoint"
    newest = [checkpoint / "metadata"]
    for folder in ("offsets", "commits"):
        newest += [checkpoint / folder / str(n) for n in _numbers(checkpoint / folder)[-2:]]
    newest += sorted(checkpoint.glob("state/*/_metadata/v2/[0-9]*"))
    newest += sorted(path for path in checkpoint.glob("state/*/_stateSchema/*/*") if path.name[0] != ".")
    for path in newest:
        require_whole(path, path, directory)


def require_whole(path: Path, shown: Path, directory: Path) -> None:
    """Raise RunDirectoryBroken for a file that is not what Spark wrote."""
    if path.name.endswith(".crc") or not path.exists():
        return
    fault = fault_of(path) or (None if path.stat().st_size else "it is empty")
    if fault is not None:
        raise RunDirectoryBroken(path=shown, what=f"is damaged: {fault}", next_step=way_back(directory))


def read_offset(checkpoint: Path, epoch: int) -> dict[str, Any]:
    """What Penstock's source reads in an epoch, and the version. Raises LookupError if the entry has none."""
    return _offset(checkpoint, epoch)[2]


def plan_again(checkpoint: Path, epoch: int, version: int) -> None:
    """Let an epoch that is not committed run under another version, with the same input.

    It exports no state any more: if some has to move, a later epoch is planned to export it.
    """
    lines, place, offset = _offset(checkpoint, epoch)
    offset.pop("exports", None)
    lines[place] = json.dumps({**offset, "version": version})
    write_checked(checkpoint / "offsets" / str(epoch), "\n".join(lines).encode())


def settle(checkpoint: Path) -> None:
    """Make a copied checkpoint one of its own: another query's, with paths to itself."""
    write_checked(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
    rebase(checkpoint, at=checkpoint)


def rebase(checkpoint: Path, *, at: Path) -> None:
    """Spark notes the schemas of the state with whole paths: name those that they will have."""
    for path in checkpoint.glob("state/*/_metadata/v2/[0-9]*"):
        header, _, body = path.read_text().partition("\n")
        values: dict[str, Any] = json.loads(body)
        for store in values["stateStoreInfo"]:
            store[_SCHEMA_PATHS] = [_moved(name, at) for name in store[_SCHEMA_PATHS]]
        write_checked(path, f"{header}\n{json.dumps(values)}".encode())


def _moved(name: str, at: Path) -> str:
    _, state, rest = name.rpartition("/state/")
    return f"file:{at}{state}{rest}"


def _offset(checkpoint: Path, epoch: int) -> tuple[list[str], int, dict[str, Any]]:
    """The lines of an entry in the offset log, and which of them is Penstock's."""
    lines = (checkpoint / "offsets" / str(epoch)).read_text().splitlines()
    for place, line in enumerate(lines[2:], 2):  # after the format and the settings, one line per source
        offset = json.loads(line)
        if isinstance(offset, dict) and "version" in offset:
            return lines, place, offset
    raise LookupError(f"epoch {epoch} has no version in its offset log")


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal())
