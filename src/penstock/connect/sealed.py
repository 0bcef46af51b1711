"""Small JSON files that tell whether they are what was written: the values and a digest of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.connect.sink import write_atomically
from penstock.errors import RunDirectoryBroken

DIGEST_BYTES = 16
_SEAL = "digest"


def digest(data: bytes) -> bytes:
    """What tells data from other data."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def write_sealed(path: Path, values: Mapping[str, Any]) -> None:
    """Write values that ``read_sealed`` gives back."""
    write_atomically(path, json.dumps({**values, _SEAL: _seal(values)}).encode())


def read_sealed(path: Path, *, next_step: str) -> dict[str, Any]:
    """The values in a file. Raises FileNotFoundError, and RunDirectoryBroken for a damaged one."""
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        whole = values.pop(_SEAL) == _seal(values)
    except (ValueError, TypeError, KeyError, AttributeError):
        whole = False
    if not whole:
        raise RunDirectoryBroken(path=path, what="is damaged: its digest does not fit", next_step=next_step)
    return values


def _seal(values: Mapping[str, Any]) -> str:
    return digest(json.dumps(values, sort_keys=True).encode()).hex()
