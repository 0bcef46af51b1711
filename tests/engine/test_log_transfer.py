"""A slice's log carried to another place is the same log, and damage on the way is found."""

from __future__ import annotations

from io import BytesIO

import pytest
from tests.engine.accounts import WAYS
from tests.engine.test_state_log import LOGS, epoch, view

from penstock.engine.log_transfer import clear_log, read_log, write_log
from penstock.engine.state_log import BrokenLog, Shelf
from penstock.testing.engine import MemoryShelf


def copied(shelf: Shelf) -> bytes:
    file = BytesIO()
    write_log(shelf, file)
    return file.getvalue()


def contents(shelf: MemoryShelf) -> tuple[bytes | None, dict[int, bytes]]:
    return shelf.head(), shelf.values


@pytest.mark.parametrize("way", WAYS)
def test_a_log_arrives_as_it_was_and_grows_there(way: str) -> None:
    operator, arrived = WAYS[way][0](), MemoryShelf()
    read_log(BytesIO(copied(LOGS[way])), arrived)
    assert contents(arrived) == contents(LOGS[way])
    before = view(operator, arrived)
    epoch(operator, arrived, [(100, 1, False)])
    assert view(operator, arrived) == {**before, 100: before[100] + 1}


def test_decoded_state_is_still_valid_after_its_log_has_moved() -> None:
    operator, shelf, arrived = WAYS["table"][0](), MemoryShelf(), MemoryShelf()
    held = epoch(operator, shelf, [(1, 5, False)])
    read_log(BytesIO(copied(shelf)), arrived)
    held = epoch(operator, arrived, [(1, 2, False)], held)
    assert view(operator, arrived) == operator.view(held.state) == {1: 7}


def test_a_slice_without_state_arrives_empty_and_clears_what_was_there() -> None:
    target = MemoryShelf()
    epoch(WAYS["table"][0](), target, [(1, 5, False)])
    read_log(BytesIO(copied(MemoryShelf())), target)
    assert contents(target) == (None, {})


def test_a_log_replaces_what_an_earlier_stay_has_left() -> None:
    target = MemoryShelf()
    for _ in range(3):
        epoch(WAYS["table"][0](), target, [(n, n, False) for n in range(50)])
    read_log(BytesIO(copied(LOGS["table"])), target)
    assert contents(target) == contents(LOGS["table"])


@pytest.mark.parametrize("way", WAYS)
def test_a_cleared_log_holds_nothing(way: str) -> None:
    shelf = MemoryShelf()
    read_log(BytesIO(copied(LOGS[way])), shelf)
    clear_log(shelf)
    assert contents(shelf) == (None, {})


def test_every_cut_and_every_changed_byte_of_a_copy_is_found() -> None:
    whole = copied(LOGS["chunks"])
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :]):
            with pytest.raises(BrokenLog):
                read_log(BytesIO(damaged), MemoryShelf())


def test_a_log_that_is_damaged_is_not_copied() -> None:
    shelf = MemoryShelf()
    read_log(BytesIO(copied(LOGS["table"])), shelf)
    shelf.values[max(shelf.values)] = b"\0" * 64
    with pytest.raises(BrokenLog):
        copied(shelf)
