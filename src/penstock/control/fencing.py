"""Fencing tokens: of all runners of a run directory, the one that began last may write to it.

A token is a number and a random part. The number orders runners; the random part tells two runners apart that
got the same number because the folder of tokens was lost. Each token is a file of its own, which is created
only if it is absent, so that two runners that begin at once never share one. The newest number is noted in a
second place as well: after a loss of the folder, numbers go on instead of beginning anew.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from penstock.connect.private import open_private
from penstock.connect.sealed import read_sealed, write_sealed
from penstock.errors import Fenced, RunDirectoryBroken

_KEPT = 2
"""So many token files stay: the newest one, and the one that it replaced, for people."""


def newest_token(folder: Path) -> str:
    """Return the newest token; an empty text if there is none."""
    number = _newest_number(folder)
    if not number:
        return ""
    try:
        return _text(number, (folder / _name(number)).read_text())
    except FileNotFoundError:  # a newer runner has just cleared it away
        return newest_token(folder)


def number_of(token: str) -> int:
    """Return the number in a token; 0 for no token."""
    return int(token.partition("-")[0] or 0)


def begin(folder: Path, note: Path) -> str:
    """Create the next token, in ``folder`` and in the second place ``note``. All earlier ones are void."""
    folder.mkdir(exist_ok=True)
    nonce = uuid.uuid4().hex[:12]
    scratch = folder / f".{nonce}"
    with open(scratch, "w", opener=open_private) as file:
        file.write(nonce)
    try:
        while True:
            number = max(_newest_number(folder), _noted(note)) + 1
            try:
                os.link(scratch, folder / _name(number))
            except FileExistsError:  # another runner was quicker: it is older than this one now
                continue
            # Others may have begun and cleared this number away before it was taken here again.
            if _newest_number(folder) == number:
                break
    finally:
        scratch.unlink()
    write_sealed(note, {"number": number})
    for earlier in sorted(folder.glob("[0-9]*"))[:-_KEPT]:
        earlier.unlink(missing_ok=True)
    return _text(number, nonce)


def require_newest(folder: Path, token: str, directory: Path) -> None:
    """Raise Fenced if a newer runner has begun, and RunDirectoryBroken if the tokens are lost."""
    newest = newest_token(folder)
    if not newest:
        step = (
            "stop this run and start it again: it takes a new fencing token and repeats the unfinished epoch"
        )
        raise RunDirectoryBroken(path=folder, what="the fencing tokens are missing", next_step=step)
    if newest != token:
        raise Fenced(directory=directory, newest=number_of(newest), mine=number_of(token))


def _newest_number(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=0)


def _noted(note: Path) -> int:
    """Return the number in the second place; 0 if it is missing or damaged, which costs nothing else."""
    try:
        return int(read_sealed(note, next_step="")["number"])
    except (FileNotFoundError, RunDirectoryBroken):
        return 0


def _name(number: int) -> str:
    return f"{number:012d}"


def _text(number: int, nonce: str) -> str:
    return f"{number:012d}-{nonce}"
