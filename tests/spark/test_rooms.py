"""Rooms: what was read in advance is found again, and what is not whole is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.spark.read_ahead import ROOM_BYTES, Room, Visit

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="rooms are for Linux only")


@pytest.fixture
def room() -> Room:
    return Room(os.memfd_create("test"))


def batches(piece: str, rows: int = 10) -> list[pa.RecordBatch]:
    return [pa.record_batch({"piece": [piece] * rows}) for _ in range(2)]


def visited(room: Room) -> Visit:
    with room.entered() as visit:
        return visit


def found(room: Room, piece: str) -> list[str] | None:
    with room.entered() as visit:
        there = visit.batches(piece)
        return None if there is None else [word for batch in there for word in batch["piece"].to_pylist()]


def fill(room: Room, *pieces: str, read: Any = batches) -> None:
    visited(room).read_next(pieces, read)
    for thread in threading.enumerate():
        if thread.name == "read-ahead":
            thread.join()


def test_what_was_read_in_advance_is_found_by_another_process(room: Room) -> None:
    if os.fork() == 0:
        fill(room, "a", "b")
        os._exit(0)
    os.wait()
    assert found(room, "a") == ["a"] * 20
    assert found(room, "b") == ["b"] * 20
    assert found(room, "c") is None


def test_the_next_filling_forgets_the_last_before_it_overwrites_it(room: Room) -> None:
    fill(room, "a", "b")

    def fails_later(piece: str) -> Iterator[pa.RecordBatch]:
        yield from batches(piece, 100)
        raise ValueError("a source that is broken")

    fill(room, "c", read=fails_later)
    assert [found(room, piece) for piece in "abc"] == [None, None, None]


def test_a_piece_that_fails_leaves_those_before_it(room: Room) -> None:
    def read(piece: str) -> list[pa.RecordBatch]:
        if piece == "b":
            raise ValueError("a source that is broken")
        return batches(piece)

    fill(room, "a", "b", "c", read=read)
    assert [found(room, piece) is not None for piece in "abc"] == [True, False, False]


def test_a_piece_that_has_no_place_is_left_out(room: Room) -> None:
    large = pa.record_batch({"piece": pa.array([bytes(ROOM_BYTES)])})
    fill(room, "a", "b", read=lambda piece: batches(piece) if piece == "a" else [large])
    assert (found(room, "a"), found(room, "b")) == (["a"] * 20, None)


def test_whoever_reads_in_advance_gives_way_to_a_task(room: Room) -> None:
    begun, entered = threading.Event(), threading.Event()

    def read(piece: str) -> Iterator[pa.RecordBatch]:
        yield batches(piece)[0]
        if piece == "b":
            begun.set()
            entered.wait()
        yield batches(piece)[1]

    filling = threading.Thread(target=fill, args=(room, "a", "b", "c"), kwargs={"read": read})
    filling.start()
    begun.wait()
    with_room = room.entered()
    threading.Timer(0.05, entered.set).start()  # the task is at the door by then
    with with_room as visit:
        assert [visit.batches(piece) is not None for piece in "abc"] == [True, False, False]
    filling.join()


def test_a_task_does_not_wait_for_ever_and_touches_nothing_then(room: Room) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def read(piece: str) -> Iterator[pa.RecordBatch]:
        begun.set()
        goes_on.wait()
        yield from batches(piece)

    filling = threading.Thread(target=fill, args=(room, "a"), kwargs={"read": read})
    filling.start()
    begun.wait()
    assert found(room, "a") is None
    goes_on.set()
    filling.join()
    assert found(room, "a") is None


def test_a_damaged_index_is_no_index(room: Room) -> None:
    fill(room, "a")
    room._memory[40] ^= 1
    assert found(room, "a") is None
