"""Copies of state values that workers share: a way to read faster, never a second truth."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.accounts import Tables
from tests.engine.test_state_log import epoch, view

from penstock.errors import StateDamaged
from penstock.spark.mirror import SMALL_BYTES, Mirrored
from penstock.testing.engine import MemoryShelf

MANY = [(n, n, False) for n in range(4_000)]


class Store(MemoryShelf):
    """Counts what is read from the store itself."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, number: int) -> bytes | None:
        self.reads += 1
        return super().get(number)


def files(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir()} if folder.exists() else set()


def written(folder: Path, store: Store) -> dict[int, int]:
    """A log of a base and two deltas, written by one worker; what it holds."""
    held = epoch(Tables(), Mirrored(store, folder), MANY)
    for n in range(2):
        held = epoch(Tables(), Mirrored(store, folder), [(k, n, False) for k in range(2_000)], held)
    return view(Tables(), store)


def test_another_worker_reads_the_copies_and_not_the_store(tmp_path: Path) -> None:
    store = Store()
    expected = written(tmp_path / "a", store)
    store.reads = 0
    assert view(Tables(), Mirrored(store, tmp_path / "a")) == expected
    assert store.reads == 0
    assert files(tmp_path / "a") == set(store.values)


@pytest.mark.parametrize("damage", ["cut", "other", "gone"])
def test_copies_that_are_not_the_logs_are_left_aside(tmp_path: Path, damage: str) -> None:
    store = Store()
    expected = written(tmp_path / "a", store)
    path = tmp_path / "a" / str(max(files(tmp_path / "a")))
    if damage == "gone":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-1] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    store.reads = 0
    assert view(Tables(), Mirrored(store, tmp_path / "a")) == expected
    assert store.reads > 0


def test_damage_in_the_store_is_found_behind_copies_that_are_wrong_too(tmp_path: Path) -> None:
    store = Store()
    written(tmp_path / "a", store)
    for number in store.values:
        (tmp_path / "a" / str(number)).write_bytes(b"wrong")
        store.values[number] = b"wrong as well"
    with pytest.raises(StateDamaged):
        view(Tables(), Mirrored(store, tmp_path / "a"))


def test_what_the_log_drops_goes_and_so_does_what_was_left_behind(tmp_path: Path) -> None:
    store = Store()
    folder = tmp_path / "a"
    held = epoch(Tables(), Mirrored(store, folder), MANY)
    elsewhere = tmp_path / "b"
    for n in range(12):  # another executor serves the slice, and writes new bases meanwhile
        held = epoch(Tables(), Mirrored(store, elsewhere), [(k, n, False) for k in range(4_000)], held)
    assert not files(folder) & set(store.values)
    for n in range(12):
        held = epoch(Tables(), Mirrored(store, folder), [(k, n, True) for k in range(4_000)], held)
    assert files(folder) <= set(store.values)


def test_small_values_have_no_copy_and_an_old_one_goes(tmp_path: Path) -> None:
    store = Store()
    shelf = Mirrored(store, tmp_path / "a")
    shelf.put(1, bytes(SMALL_BYTES + 1))
    shelf.put(1, b"small")
    assert shelf.get(1) == b"small"
    assert files(tmp_path / "a") == set()
