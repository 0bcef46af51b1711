"""Rows to a receiver on the web: a real server on this machine, which drops what it has had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.connect.receiver import Receiver, receiving

from penstock.connect.http_post import Http, _folder, _note_sent
from penstock.connect.sealed import write_sealed
from penstock.errors import BadArgument, PenstockError, RunDirectoryBroken, SinkRefused, SinkUnavailable
from penstock.frames.types import to_polars
from penstock.testing.sinks import SCHEMA, Harness, check_sink, rows


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.mark.long
def test_sink_conforms(receiver: Receiver, tmp_path: Path) -> None:
    def seen(_: Any, folder: Path) -> pl.DataFrame:
        return pl.DataFrame(receiver.rows(folder.name), schema=to_polars(SCHEMA))

    check_sink(lambda folder: Http(receiver.url(folder.name), rows_per_post=2), seen, tmp_path)


def _harness(sink: Http, tmp_path: Path) -> Harness:
    return Harness(sink, lambda _, __: pl.DataFrame(), tmp_path)


def test_each_post_has_a_key_of_run_sink_epoch_and_part_and_the_users_headers(
    receiver: Receiver, tmp_path: Path
) -> None:
    sink = Http(receiver.url("in"), rows_per_post=2, headers={"Authorization": "Bearer 7"})
    _harness(sink, tmp_path).epoch(4, [rows(0, 2)], [rows(2, 1)])
    assert receiver.requests == [("run-1/out/4/0", "Bearer 7"), ("run-1/out/4/1", "Bearer 7")]
    assert receiver.rows("in") == [{"key": f"k{n}", "count": n} for n in range(3)]


def test_a_receiver_that_is_busy_is_asked_again(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = [503, 429]
    _harness(Http(receiver.url("in")), tmp_path).epoch(0, [rows(0, 1)])
    assert len(receiver.requests) == 3
    assert receiver.rows("in") == [{"key": "k0", "count": 0}]


@pytest.mark.parametrize(("answers", "error"), [([422], SinkRefused), ([503] * 9, SinkUnavailable)])
def test_an_epoch_that_was_sent_in_part_goes_on_with_the_same_bytes_under_the_same_keys(
    receiver: Receiver, tmp_path: Path, answers: list[int], error: type[PenstockError]
) -> None:
    receiver.answers = [200, *answers]
    harness = _harness(Http(receiver.url("in"), rows_per_post=1, patience="150ms"), tmp_path)
    with pytest.raises(error) as caught:
        harness.epoch(0, [rows(0, 1)], [rows(1, 1)])
    assert str(answers[0]) in caught.value.parameters["what"]
    receiver.answers = []
    harness.epoch(0, [rows(1, 1)], [rows(0, 1)], attempt="1")  # cut in another way
    assert receiver.rows("in") == [{"key": "k0", "count": 0}, {"key": "k1", "count": 1}]
    assert not list(tmp_path.rglob("*.jsonl")), "what was accepted is not kept"


@pytest.mark.parametrize("withheld", [0, 9])
def test_a_refusal_has_the_words_of_the_receiver_even_if_they_break_off(
    receiver: Receiver, tmp_path: Path, withheld: int
) -> None:
    receiver.answers, receiver.withheld = [403], withheld
    with pytest.raises(SinkRefused) as caught:
        _harness(Http(receiver.url("in")), tmp_path).epoch(0, [rows(0, 1)])
    assert caught.value.parameters["what"] == "the receiver answered 403 Forbidden (no room for you)"


def test_a_receiver_that_is_away_makes_the_sink_unavailable(receiver: Receiver, tmp_path: Path) -> None:
    url = receiver.url("in").replace(str(receiver.server_port), "1")  # nobody listens there
    with pytest.raises(SinkUnavailable) as caught:
        _harness(Http(url, patience="0s"), tmp_path).epoch(0, [rows(0, 1)])
    assert caught.value.parameters["where"] == url


def test_what_an_earlier_penstock_has_noted_as_accepted_is_not_sent_again(
    receiver: Receiver, tmp_path: Path
) -> None:
    harness = _harness(Http(receiver.url("in")), tmp_path)
    write_sealed(_folder(harness.context(1)) / "newest.json", {"epoch": 1})
    harness.epoch(1, [rows(0, 1)])
    assert receiver.requests == []
    harness.epoch(2, [rows(1, 1)])
    assert receiver.rows("in") == [{"key": "k1", "count": 1}]


def test_what_was_accepted_is_never_noted_as_less(receiver: Receiver, tmp_path: Path) -> None:
    """A runner that was held up while it noted an epoch does so after a newer runner's epochs."""
    harness = _harness(Http(receiver.url("in")), tmp_path)
    for epoch in (1, 2, 3):
        harness.epoch(epoch, [rows(epoch, 1)])
    _note_sent(_folder(harness.context(1)), 1)
    harness.epoch(3, [rows(3, 1)], attempt="1")
    assert [key for key, _ in receiver.requests] == [f"run-1/out/{epoch}/0" for epoch in (1, 2, 3)]


def test_a_damaged_note_of_what_was_accepted_is_named_and_nothing_is_left_out(
    receiver: Receiver, tmp_path: Path
) -> None:
    """Of an earlier Penstock: today a note is the name of an empty file."""
    harness = _harness(Http(receiver.url("in")), tmp_path)
    harness.epoch(1, [rows(0, 1)])
    note = _folder(harness.context(1)) / "newest.json"
    write_sealed(note, {"epoch": 1})
    note.write_bytes(note.read_bytes().replace(b'"epoch": 1', b'"epoch": 9'))
    with pytest.raises(RunDirectoryBroken) as caught:
        harness.epoch(2, [rows(1, 1)])
    assert caught.value.parameters["path"] == note
    note.unlink()
    harness.epoch(2, [rows(1, 1)], attempt="1")
    assert receiver.rows("in") == [{"key": "k0", "count": 0}, {"key": "k1", "count": 1}]


@pytest.mark.parametrize("url", ["ftp://host/x", "host:80", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadArgument) as caught:
        Http(url)
    assert caught.value.parameters["what"] == "url"


def test_a_post_of_no_rows_is_refused() -> None:
    with pytest.raises(BadArgument):
        Http("http://host/", rows_per_post=0)
