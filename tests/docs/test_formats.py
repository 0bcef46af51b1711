"""The table of formats says what the code reads and writes."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.upgrades import shop

from penstock.control import run_directory, savepoint_files, version_record
from penstock.control.checkpoint import read_offset
from penstock.control.run_directory import RunDirectory
from penstock.engine import state_log
from penstock.errors import BadArgument, InternalError, RunDirectoryMismatch, SavepointBroken
from penstock.frames import _payload
from penstock.frames.frame import decode, encode
from penstock.frames.types import of_frame
from penstock.topology import codec

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "formats.md"
WRITTEN = {
    "run directory": run_directory.FORMAT,
    "record of a version": version_record.FORMAT,
    "topology as JSON": codec.FORMAT,
    "savepoint": savepoint_files.FORMAT,
    "head of a state log": state_log._FORMAT,
    "rows in a state, and between nodes": _payload.FORMAT,
}
READ = {
    "run directory": run_directory.READS,
    "head of a state log": (state_log._UNSEALED, state_log._FORMAT),
}


def rows() -> dict[str, tuple[int, tuple[int, ...]]]:
    """What is written and read, by the first column of the first table."""
    found = {}
    for line in PAGE.read_text().split("\n\n")[2].splitlines()[2:]:
        what, _, writes, reads = (cell.strip() for cell in line.strip("|").split("|"))
        found[what] = (int(writes), tuple(int(number) for number in reads.split(",")))
    return found


def test_the_table_names_this_penstock() -> None:
    named = re.findall(r"Penstock (\d+\.\d+\.\d+) writes", PAGE.read_text())
    assert named == [version("penstock")]


def test_the_table_says_what_the_code_writes_and_reads() -> None:
    assert rows() == {what: (number, READ.get(what, (number,))) for what, number in WRITTEN.items()}


def test_every_stored_run_is_of_a_format_that_is_read(tmp_path: Path) -> None:
    run = shop.unpack(shop.RUN, tmp_path / "run")
    card = json.loads((run / "run.json").read_bytes())
    assert card["format"] in run_directory.READS
    offset = read_offset(run / "checkpoint", 3)
    named = set(
        re.findall(r"`(\w+)`", next(p for p in PAGE.read_text().split("\n- ") if p.startswith("Offsets")))
    )
    assert {"version", "sources", "punctuation", "tasks"} <= offset.keys() & named


def test_later_formats_are_refused_in_words(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.open("shop")
    run.write_card({"format": run_directory.FORMAT + 1, "topology": "shop", "run_id": "x"})
    with pytest.raises(RunDirectoryMismatch):
        run.open("shop")

    savepoint = shop.unpack(shop.SAVEPOINT, tmp_path / "savepoint")
    from penstock.connect.sealed import read_sealed, write_sealed

    values = read_sealed(savepoint / "savepoint.json", next_step="")
    write_sealed(savepoint / "savepoint.json", {**values, "format": savepoint_files.FORMAT + 1})
    with pytest.raises(SavepointBroken):
        savepoint_files.open_savepoint(savepoint)

    with pytest.raises(BadArgument):
        codec.from_json({"format": codec.FORMAT + 1, "name": "shop", "nodes": []})

    head = state_log.empty_head(1, 1, 0).pack()
    with pytest.raises(state_log.BrokenLog):
        state_log.Head.unpack(bytes([state_log._FORMAT + 1]) + head[1:])


def test_rows_of_a_later_format_are_refused() -> None:
    import polars as pl

    frame = pl.DataFrame({"a": [1, 2]})
    content = encode(frame)
    assert content[0] == _payload.FORMAT
    with pytest.raises(InternalError):
        decode(bytes([_payload.FORMAT + 1]) + content[1:], of_frame(frame))
