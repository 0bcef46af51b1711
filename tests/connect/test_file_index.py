"""The index of taken files: a damaged entry is found, for another size would mean other rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.file_forgetting import Forgetting
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


def entries(*names: str, size: int = 10) -> list[FileEntry]:
    return [FileEntry(name, size + i, 11 + i, 12 + i) for i, name in enumerate(names)]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_is_forgotten_leaves_the_numbers_of_the_others(tmp_path: Path, is_reopened: bool) -> None:
    log = tmp_path / "files.jsonl"
    index, other = FileIndex(log), FileIndex(log)
    made = entries("a", "b", "c", "d")
    index.append(made)
    index.forget(3, {"a"})
    index = FileIndex(log) if is_reopened else index
    index.append(entries("e", size=50))
    assert (index.base, len(index)) == (3, 5)
    assert [index[n].path for n in (3, 4)] == ["d", "e"]
    assert index.latest("a") is None
    assert [index.latest(name) for name in "bcd"] == made[1:]
    assert index.is_known("b", 11, 12)
    assert not index.is_known("a", 10, 11)
    assert index.bytes_from(3) == 13 + 50
    other.append(entries("f", size=60))
    assert [FileIndex(log)[n].path for n in (3, 4, 5)] == ["d", "e", "f"], "another process goes on"
    with pytest.raises(IndexError):
        index[2]


def test_a_forgotten_file_that_comes_back_is_new_and_one_that_grew_is_not(
    tmp_path: Path,
) -> None:
    index = FileIndex(tmp_path / "files.jsonl")
    index.append(entries("a", "b"))
    index.forget(2, {"a"})
    index.append([FileEntry("a", 1, 2, 3), FileEntry("b", 99, 98, 0), FileEntry("b", 99, 98, 0, "changed")])
    assert [(index[n].path, index[n].kind) for n in range(2, len(index))] == [
        ("a", "taken"),
        ("b", "changed"),
    ]


def test_every_flipped_bit_of_a_log_that_was_written_anew_is_found(tmp_path: Path) -> None:
    log = tmp_path / "files.jsonl"
    FileIndex(log).append(entries("a", "b", "c"))
    FileIndex(log).forget(2, {"a"})
    before = log.read_bytes()
    for place in range(len(before) - 1):
        log.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
        with pytest.raises(RunDirectoryBroken):
            FileIndex(log)


def test_files_are_forgotten_after_a_week_and_an_empty_folder_says_nothing(
    tmp_path: Path,
) -> None:
    day_ns = 24 * 3600 * 10**9
    index, there, now = FileIndex(tmp_path / "files.jsonl"), {"f5000"}, [0]
    names = [f"f{n}" for n in range(5001)]
    index.append(entries(*names))
    forgetting = Forgetting(index, lambda: there, lambda: now[0])
    for day in range(40):
        now[0] = day * day_ns
        forgetting.committed(len(index))
    assert index.base == len(index) == 5001, "and it happens only behind what the last epochs may name"
    assert (index.latest("f0"), index.latest("f5000")) == (None, entries(*names)[-1])
    there.clear()
    index.append(entries("g"))
    for day in range(40, 90):
        now[0] = day * day_ns
        forgetting.committed(len(index))
    assert index.latest("f5000") is not None
    assert (tmp_path / "files.jsonl").stat().st_size < 200
