"""Segments of SNDCP become the packets that they were."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.net import gprs_making as g
from tests.net import making as m
from tests.net.rows import clocks, moment, rows_of, told

from penstock import net
from penstock.errors import BadArgument
from penstock.testing.operators import check_operator

WHOLE = m.ipv4(m.udp(bytes(range(250)) * 4))
SIZE = 200
COUNT = -(-len(WHOLE) // SIZE)


def segments(*numbers: int, number: int = 0, tlli: int = 0xC0DEAD01, packet: bytes = WHOLE) -> list[bytes]:
    return [g.gb_segment(packet, n, SIZE, number=number, tlli=tlli) for n in numbers]


def joined(packets: list[bytes], **options: Any) -> dict[str, pl.DataFrame]:
    return told(net.JoinSegments(**options), net.gb_segments(rows_of(packets)))


def test_a_joined_packet_is_as_if_it_had_come_in_one_frame() -> None:
    out = joined(segments(*range(COUNT)))["out"]
    alone = rows_of([g.gb_sent(g.gb_unit(g.sndcp(WHOLE)))])
    assert out.columns == alone.columns
    assert out["packet"].to_list() == [WHOLE]
    assert out["time"].to_list() == [moment((COUNT - 1) / 1000)]
    placed = ("time", "time_ns", "packet", "length", "link_type", "payload_offset")
    same = [name for name in out.columns if name not in placed and not name.startswith("capture")]
    assert out.select(same).rows() == alone.select(same).rows()
    assert out["reason"].to_list() == [0]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_order_copies_and_epochs_make_no_difference(data: st.DataObject) -> None:
    """Packets of two subscribers, the first segment of each in front of its others, and any cuts."""
    packets = {tlli: m.ipv4(m.udp(data.draw(st.binary(min_size=300, max_size=2500)))) for tlli in (7, 8)}
    sequences = []
    for tlli, packet in packets.items():
        later = range(1, -(-len(packet) // SIZE))
        order = [
            0,
            *data.draw(st.permutations(later)),
            *data.draw(st.lists(st.sampled_from(later), max_size=2)),
        ]
        sequences.append([g.gb_segment(packet, n, SIZE, tlli=tlli) for n in order])
    turns = data.draw(st.permutations([0] * len(sequences[0]) + [1] * len(sequences[1])))
    sent = [sequences[turn].pop(0) for turn in turns]
    rows = net.gb_segments(rows_of(sent))
    cuts = data.draw(st.lists(st.integers(0, rows.height), max_size=5))
    out = told(net.JoinSegments(), rows, cuts, clocks(rows, cuts))["out"]
    assert dict(out.select("tunnel_id", "packet").rows()) == packets
    assert out.height == 2


def test_the_same_comes_out_in_every_way_that_an_operator_may_be_run() -> None:
    sent = segments(0, 2, 1, *range(3, COUNT)) + segments(1) + segments(0, number=9)
    rows = net.gb_segments(rows_of(sent))
    out = check_operator(
        net.JoinSegments, [rows[:2], rows[2:4], rows[4:]], times=[moment(0.001), None], same_for="epochs"
    )
    assert out["out"]["packet"].to_list() == [WHOLE]
    assert out["incomplete"].select("npdu", "segments", "reason").rows() == [
        (0, 1, "first segment missing"),
        (9, 1, "segments missing"),
    ]


def test_a_number_that_comes_again_is_another_packet() -> None:
    other = m.ipv4(m.udp(b"y" * 500))
    out = joined(segments(0, 1) + segments(0, 1, 2, packet=other) + segments(*range(COUNT)))
    assert out["out"]["packet"].to_list() == [other, WHOLE]
    assert out["incomplete"].select("npdu", "segments", "bytes", "reason").rows() == [
        (0, 2, 2 * SIZE, "segments missing")
    ]


def test_a_packet_that_waits_too_long_is_told_and_not_joined() -> None:
    late = [0.0, *(31.0 + n for n in range(1, COUNT))]
    rows = net.gb_segments(rows_of(segments(*range(COUNT)), late))
    for cuts in ([], [1], [2, 4]):
        out = told(net.JoinSegments(), rows, cuts, clocks(rows, cuts))
        assert out["out"].is_empty()
    out = told(net.JoinSegments(), rows[:2], [1], [moment(30.5)])
    assert out["incomplete"].select("segments", "reason").rows() == [
        (1, "segments missing"),
        (1, "first segment missing"),
    ]


def test_the_oldest_packet_goes_when_there_is_no_room() -> None:
    two = segments(0, 1, number=1) + segments(0, 1, number=2)
    out = joined(two + segments(*range(2, COUNT), number=2), slice_bytes=3 * (SIZE + 256))
    assert out["out"]["packet"].to_list() == [WHOLE]
    assert out["incomplete"].select("npdu", "reason").rows() == [(1, "segments missing")]
    out = joined(two, slice_bytes=3 * (SIZE + 256))
    assert out["incomplete"].select("npdu", "segments", "reason").rows() == [
        (1, 2, "no memory"),
        (2, 2, "segments missing"),
    ]


def test_a_segment_that_was_cut_off_by_the_capture_stays_a_packet() -> None:
    sent = segments(*range(COUNT))
    cut = g.rows_of(sent, snap=len(sent[1]) - 50)
    assert net.gb_segments(cut).height == 1  # the last one is short
    assert cut.filter(~net.is_segment()).height == COUNT - 1
    assert net.gb_segments(rows_of([])).is_empty()
    assert net.gb_segments(rows_of([g.gb_sent(g.gb_unit(g.sndcp(WHOLE)))])).is_empty()


def test_no_room_at_all_is_refused() -> None:
    with pytest.raises(BadArgument, match="slice_bytes"):
        net.JoinSegments(slice_bytes=0)
