"""Run directories of format 1, whose small files had no digest, are brought to the present format."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.connect.sealed import write_sealed

_BEFORE = {"format", "topology", "run_id"}


def seal_if_older(directory: Path, present: int) -> None:
    """Seal what an earlier Penstock left without a digest; the card last, so that a crash is no harm."""
    card = directory / "run.json"
    try:
        values = json.loads(card.read_bytes())
    except (FileNotFoundError, ValueError):
        return
    if not isinstance(values, dict) or values.keys() != _BEFORE or values["format"] != 1:
        return
    current = directory / "current"
    if current.exists() and current.read_text().isdecimal():
        write_sealed(current, {"version": int(current.read_text())})
    for name in ("fabric.json", "observed.json"):
        path = directory / name
        if path.exists() and "digest" not in (inside := json.loads(path.read_bytes())):
            write_sealed(path, inside)
    write_sealed(card, {**values, "format": present})
