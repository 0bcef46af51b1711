"""The index of taken files: a damaged entry is found, for another size would mean other rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.file_index import FileEntry, FileIndex
from penstock.errors import RunDirectoryBroken

ENTRIES = [FileEntry("a\tb.csv", 10, 11, 12), FileEntry("ü.csv", 20, 21, 22)]


@pytest.mark.long
def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    log = tmp_path / "files.jsonl"
    FileIndex(log).append(ENTRIES)
    before = log.read_bytes()
    assert [FileIndex(log)[n] for n in (0, 1)] == ENTRIES
    for place in range(len(before) - 1):  # without its last byte the last line is torn, as after a crash
        for bit in range(8):
            log.write_bytes(before[:place] + bytes([before[place] ^ (1 << bit)]) + before[place + 1 :])
            with pytest.raises(RunDirectoryBroken) as caught:
                FileIndex(log)
            assert caught.value.parameters["path"] == log


def test_lines_without_a_checksum_are_read(tmp_path: Path) -> None:
    log = tmp_path / "files.jsonl"
    log.write_text('["a.csv", 1, 2, 3, "taken"]\n')
    assert FileIndex(log)[0] == FileEntry("a.csv", 1, 2, 3)
