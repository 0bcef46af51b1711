"""TCP streams: the bytes that were sent, in order and once, whatever happened to the segments."""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.net import making as m
from tests.net.answers import DATA, MISSING
from tests.net.rows import ALL, Kept, clocks, in_bursts, moment, rows_in, rows_of, told

import penstock as ps
from penstock import net
from penstock.errors import BadArgument
from penstock.net._tcp_layout import OVERHEAD, most_pieces
from penstock.net.opening import NotACapture
from penstock.testing import run
from penstock.testing.operators import check_operator

FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16
PCPP = DATA / "decode" / "pcapplusplus" / "Pcap++Test" / "PcapExamples"
EXAMPLES = DATA / "decode" / "pcapplusplus" / "ExamplesTest"
real = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
FIRST = 1000


def segment(seq: int, data: bytes = b"", flags: int = ACK, *, back: bool = False, port: int = 1111) -> bytes:
    """A packet from 10.0.0.1, or back to it."""
    ends, ports = ("10.0.0.1", "10.0.0.2"), (port, 80)
    if back:
        ends, ports = ends[::-1], ports[::-1]
    head = struct.pack(">HHIIBBHHH", *ports, seq % 2**32, 0, 5 << 4, flags, 512, 0, 0)
    return m.ethernet(m.ipv4(head + data, 6, src=ends[0], dst=ends[1]))


def syn(seq: int = FIRST - 1, *, back: bool = False, port: int = 1111) -> bytes:
    return segment(seq, flags=SYN, back=back, port=port)


def segments(packets: Sequence[bytes], seconds: Sequence[float] | None = None) -> pl.DataFrame:
    return net.tcp_segments(rows_of(packets, seconds))


def streams(packets: Sequence[bytes], cuts: Sequence[int] = (), **limits: object) -> pl.DataFrame:
    operator = net.TcpStreams(**limits)  # type: ignore[arg-type]
    return told(operator, segments(packets), cuts)["out"]


def pieces(found: pl.DataFrame) -> list[tuple[int, bytes, int]]:
    return found.select("offset", "data", "gap_bytes").rows()


def test_segments_out_of_order_come_out_in_order() -> None:
    parts = [segment(FIRST + 3, b"def"), segment(FIRST + 6, b"ghi"), segment(FIRST, b"abc")]
    assert pieces(streams([syn(), *parts])) == [(0, b"abc", 0), (3, b"def", 0), (6, b"ghi", 0)]


def test_bytes_that_come_again_are_left_out() -> None:
    parts = [
        segment(FIRST, b"abc"),
        segment(FIRST, b"abc"),
        segment(FIRST + 1, b"bcde"),
        segment(FIRST, b"ab"),
    ]
    assert pieces(streams([syn(), *parts])) == [(0, b"abc", 0), (3, b"de", 0)]


def test_of_overlapping_bytes_those_that_came_first_win() -> None:
    parts = [segment(FIRST + 2, b"11"), segment(FIRST + 1, b"2222"), segment(FIRST, b"333333")]
    assert b"".join(streams([syn(), *parts])["data"]) == b"321123"


def test_sequence_numbers_wrap_around() -> None:
    first = 2**32 - 4
    parts = [segment(first + 5, b"fgh"), segment(first, b"abcde"), segment(first + 8, b"ij")]
    assert pieces(streams([syn(first - 1), *parts])) == [(0, b"abcde", 0), (5, b"fgh", 0), (8, b"ij", 0)]


def test_both_directions_are_streams_of_their_own() -> None:
    parts = [syn(), syn(70, back=True), segment(FIRST, b"question"), segment(71, b"answer", back=True)]
    found = streams(parts)
    assert found.select("forward", "offset", "data").rows() == [(True, 0, b"question"), (False, 0, b"answer")]


def test_what_never_came_is_a_gap_with_its_size() -> None:
    found = streams([syn(), segment(FIRST, b"abc"), segment(FIRST + 10, b"klm")])
    assert pieces(found) == [(0, b"abc", 0), (10, b"klm", 7)]
    assert found["gap_reason"].to_list() == [None, "lost"]


@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 3)])
def test_a_gap_is_given_up_when_it_was_waited_for_too_long(cuts: tuple[int, ...]) -> None:
    packets = [syn(), segment(FIRST + 3, b"def"), segment(FIRST, b"abc"), segment(FIRST + 6, b"ghi")]
    rows = segments(packets, [0, 1, 20, 21])
    clocks = [moment([0, 1, 20][cut - 1]) for cut in cuts]
    found = told(net.TcpStreams(wait="5s"), rows, cuts, clocks)["out"]
    assert pieces(found) == [(3, b"def", 3), (6, b"ghi", 0)]


def test_a_stream_whose_beginning_was_not_seen_begins_with_its_first_segment() -> None:
    assert pieces(streams([segment(500, b"abc"), segment(503, b"def")])) == [(0, b"abc", 0), (3, b"def", 0)]


def test_nothing_comes_behind_a_fin_and_what_is_missing_before_it_is_told() -> None:
    parts = [segment(FIRST, b"abc", FIN | ACK), segment(FIRST + 3, b"xyz")]
    assert pieces(streams([syn(), *parts])) == [(0, b"abc", 0)]
    found = streams([syn(), segment(FIRST, b"abc"), segment(FIRST + 5, b"", FIN | ACK)])
    assert pieces(found) == [(0, b"abc", 0), (5, b"", 2)]


def test_a_fin_that_overtakes_its_data_waits_for_it() -> None:
    parts = [segment(FIRST + 6, b"", FIN | ACK), segment(FIRST + 3, b"def"), segment(FIRST, b"abc")]
    assert pieces(streams([syn(), *parts])) == [(0, b"abc", 0), (3, b"def", 0)]


def test_a_reset_ends_both_directions() -> None:
    parts = [segment(9, b"x", back=True), segment(FIRST + 5, b"fg"), segment(10, flags=RST, back=True)]
    found = streams([syn(), *parts, segment(FIRST, b"abcde"), segment(10, b"y", back=True)])
    assert pieces(found) == [(0, b"x", 0), (5, b"fg", 5)]
    assert found["gap_reason"].to_list() == [None, "closed"]


def test_a_new_syn_begins_another_connection_between_the_same_ends() -> None:
    old = [syn(), segment(FIRST, b"old"), segment(5, b"bye", back=True), segment(FIRST + 3, b"", FIN | ACK)]
    new = [syn(777_777), syn(99, back=True), segment(777_778, b"new"), segment(100, b"hi", back=True)]
    found = streams([*old, syn(), *new])
    assert found.select("connection", "offset", "data").rows() == [
        (0, 0, b"old"), (0, 0, b"bye"), (1, 0, b"new"), (1, 0, b"hi"),
    ]  # fmt: skip


def test_a_flow_that_was_silent_begins_anew() -> None:
    rows = segments([syn(), segment(FIRST, b"abc"), segment(50, b"xyz")], [0, 1, 500])
    found = told(net.TcpStreams(), rows)["out"]
    assert found.select("connection", "offset", "data").rows() == [(0, 0, b"abc"), (0, 0, b"xyz")]


def test_bytes_that_a_capture_cut_off_are_a_gap_at_once() -> None:
    whole = rows_of([syn(), segment(FIRST, b"abcdef"), segment(FIRST + 6, b"ghi")])
    cut = whole.with_columns(pl.col("packet").bin.slice(0, 14 + 40 + 4)).head(2)
    rows = net.tcp_segments(pl.concat([cut, whole.tail(1)]))
    found = told(net.TcpStreams(), rows)["out"]
    assert pieces(found) == [(0, b"abcd", 0), (6, b"ghi", 2)]
    assert found["gap_reason"].to_list() == [None, "not captured"]


def test_a_segment_too_far_ahead_belongs_to_no_stream() -> None:
    found = streams([syn(), segment(FIRST + 2**30 + 5, b"bad"), segment(FIRST, b"good")])
    assert pieces(found) == [(0, b"good", 0)]


def test_the_same_comes_out_in_every_way_that_an_operator_may_be_run() -> None:
    packets = [
        syn(), segment(FIRST + 3, b"def"), syn(port=5), segment(FIRST, b"abc", port=5),
        segment(FIRST, b"abc"), segment(FIRST + 9, b"jkl"), segment(FIRST + 20, b"uvw", port=5),
        segment(77, b"ok", back=True),
    ]  # fmt: skip
    rows = segments(packets)
    epochs = [rows[:2], rows[2:6], rows[6:]]
    out = check_operator(net.TcpStreams, epochs, times=[None, moment(0.005)], same_for="epochs")["out"]
    assert out["data"].len() == 7 - 1
    assert sorted(out["gap_bytes"].to_list()) == [0, 0, 0, 0, 3, 17]


@dataclass(frozen=True)
class Sent:
    """What was sent, the segments that came, and where epochs are cut."""

    data: bytes
    first: int
    parts: list[tuple[int, int]]
    cuts: list[int]

    @property
    def packets(self) -> list[bytes]:
        return [syn(self.first - 1), *(segment(self.first + a, self.data[a:b]) for a, b in self.parts)]


@st.composite
def sent(draw: st.DrawFn, *, is_all: bool) -> Sent:
    data = draw(st.binary(min_size=1, max_size=400))
    edges = [0, *sorted(draw(st.sets(st.integers(1, len(data)), max_size=12)) - {len(data)}), len(data)]
    parts = list(pairwise(edges)) if is_all else []
    ends = st.integers(0, len(data))
    more = draw(st.lists(st.tuples(ends, ends), min_size=0 if is_all else 1, max_size=12))
    parts += [(min(pair), max(pair)) for pair in more]
    order = draw(st.permutations(parts))
    cuts = draw(st.lists(st.integers(0, len(parts) + 1), max_size=6))
    first = draw(st.sampled_from([1, FIRST, 2**31 - 7, 2**32 - 5, 2**32 - 300]))
    return Sent(data, first, list(order), cuts)


@settings(max_examples=80, deadline=None)
@given(sent(is_all=True))
def test_any_segments_in_any_order_give_what_was_sent(case: Sent) -> None:
    found = streams(case.packets, case.cuts)
    assert b"".join(found["data"]) == case.data
    assert found["gap_bytes"].sum() == 0


@settings(max_examples=80, deadline=None)
@given(sent(is_all=False), st.sampled_from([200, 600, 10_000]), st.sampled_from(["2ms", "1s"]))
def test_with_losses_and_small_bounds_the_rest_is_in_its_place_however_epochs_are_cut(
    case: Sent, direction_bytes: int, wait: str
) -> None:
    rows = segments(case.packets)
    operator = net.TcpStreams(wait=wait, direction_bytes=direction_bytes, slice_bytes=900)
    once = told(operator, rows)["out"]
    at = 0
    for offset, data, gap in pieces(once):
        assert offset == at + gap
        assert data == case.data[offset : offset + len(data)]
        at = offset + len(data)
    often = told(operator, rows, case.cuts, clocks(rows, case.cuts))["out"]
    assert often.sort(pl.all()).equals(once.sort(pl.all()))


@pytest.mark.parametrize("count", [20, 500])
def test_one_segment_fills_all_holes_between_what_waited_from_earlier_epochs(count: int) -> None:
    waiting = [segment(FIRST + 1 + 2 * i, b"x") for i in range(count)]
    covering = segment(FIRST, b"y" * (2 * count + 1))
    found = streams([syn(), *waiting, covering], cuts=[count // 2, count + 1])
    assert b"".join(found["data"]) == b"yx" * count + b"y"
    assert found.height == 2 * count + 1


@settings(max_examples=500, deadline=None)
@given(
    st.sets(st.integers(0, 60), max_size=30),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), max_size=12),
    st.integers(0, 12),
)
def test_segments_never_hold_more_pieces_than_the_derived_bound(
    held: set[int], parts: list[tuple[int, int]], gone: int
) -> None:
    # The oracle knows bytes, not lists of pieces: a new piece is a stretch of bytes that nothing held before.
    taken, made = set(held), 0
    for number, (begin, size) in enumerate(parts):
        new = set(range(begin, begin + size)) - taken
        made += sum(byte - 1 not in new for byte in new)
        taken |= new
        if number == gone:  # what is at the front is given out
            taken -= set(range(30))
    assert len(held) + made <= most_pieces(len(held), len(parts))


def hostile(count: int) -> list[bytes]:
    """Segments of many flows, each far behind a gap that nothing fills."""
    opened = [syn(port=1 + port) for port in range(40)]
    return opened + [
        segment(FIRST + 10 + (i * 7919) % 50_000, bytes(1 + i % 90), port=1 + i * 31 % 40)
        for i in range(count)
    ]


def test_hostile_segments_never_hold_more_than_the_bounds() -> None:
    operator, kept = net.TcpStreams(direction_bytes=2_000, slice_bytes=20_000), Kept()
    state = operator.init_state()
    for part in segments(hostile(4000)).iter_slices(100):
        operator.process(part, state, kept)
        held = state["waiting"].frame().with_columns(cost=pl.col("data").bin.size() + OVERHEAD)
        assert held["cost"].sum() <= 20_000
        assert held.group_by(*net.FLOW_KEY, "forward").agg(pl.sum("cost"))["cost"].max() <= 2_000
    assert set(pl.concat(kept.made["out"])["gap_reason"].drop_nulls()) == {"no memory"}


@pytest.mark.parametrize("cuts", [(9,), (100, 200, 201), tuple(range(0, 400, 31))])
@pytest.mark.parametrize("jitter", [0, 0.05])
def test_bounds_give_up_the_same_gaps_however_epochs_are_cut(cuts: tuple[int, ...], jitter: float) -> None:
    packets = hostile(400)
    rows = segments(packets, in_bursts(len(packets), jitter))
    operator = net.TcpStreams(wait="60ms", direction_bytes=2_000, slice_bytes=5_000)
    once = told(operator, rows)["out"]
    often = told(operator, rows, cuts, clocks(rows, cuts, jitter))["out"]
    assert set(once["gap_reason"].drop_nulls()) == {"no memory", "lost"}
    assert often.sort(pl.all()).equals(once.sort(pl.all()))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=20), st.integers(0, 255), st.booleans()),
        max_size=30,
    ),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_no_segments_do_harm(made: list[tuple[int, bytes, int, bool]], cuts: list[int]) -> None:
    packets = [segment(seq, data, flags, back=back) for seq, data, flags, back in made]
    found = streams(packets, [min(cut, len(packets)) for cut in cuts]) if packets else pl.DataFrame()
    if packets:
        assert (found["gap_bytes"] >= 0).all()
        assert found["data"].bin.size().sum() <= sum(len(data) for _, data, _, _ in made)


def many(count: int) -> list[bytes]:
    """So many connections, each with a byte missing before what it sends."""
    return [
        part for n in range(count) for part in (syn(port=2000 + n), segment(FIRST + 1, b"x", port=2000 + n))
    ]


def test_of_too_many_connections_those_that_were_silent_longest_are_ended_and_told() -> None:
    rows = segments([*many(40), segment(FIRST + 2, b"y", port=2000)])
    found = told(net.TcpStreams(slice_flows=32), rows)
    evicted = found["evicted"]["a_port"].to_list() + found["evicted"]["b_port"].to_list()
    gone = {port for port in evicted if port != 80}
    # The first connection was heard last; thirty are kept, so that the bound is not met at once again.
    assert gone == set(range(2001, 2011))
    ended = found["out"].filter(pl.col("gap_reason") == "no memory")
    assert ended.height == len(gone)
    assert set(ended["gap_bytes"]) == {1}


def test_a_slice_never_keeps_more_connections_than_its_bound() -> None:
    operator = net.TcpStreams(slice_flows=10)
    state, kept = operator.init_state(), Kept()
    rows = segments(many(200))
    for first in range(0, rows.height, 20):
        operator.process(rows[first : first + 20], state, kept)
        assert (state["flows"]["is_open"] == 1).sum() <= 10
    operator.on_punctuation(dt.datetime.max, state, kept)
    given = sum(part["data"].bin.size().sum() for part in kept.made["out"])
    assert given == 200


def test_evictions_are_the_same_in_every_way_that_an_operator_may_be_run() -> None:
    rows = segments(many(60))
    check_operator(lambda: net.TcpStreams(slice_flows=16), [rows[:50], rows[50:80], rows[80:]], processes=1)


def test_bounds_that_hold_nothing_are_refused() -> None:
    with pytest.raises(BadArgument):
        net.TcpStreams(direction_bytes=0)


def reassembled(path: Path, rows_per_epoch: int | None = None) -> pl.DataFrame:
    """A capture through the reference engine."""
    top = ps.Topology("streams")
    rows = top.source("packets", net.Pcap(path, columns=ALL, ends="drained"))
    keyed = rows.map("segments", net.tcp_segments).key_by(*net.FLOW_KEY)
    keyed.process("streams", net.TcpStreams(), parallelism=4).sink("out", ps.Collect())
    return run(top, rows_per_epoch=rows_per_epoch)["out"]


STREAMS = [
    ("one_http_stream_fin.pcap", "one_http_stream_fin_output.txt"),
    ("one_http_stream_rst.pcap", "one_http_stream_rst_output.txt"),
    ("one_http_stream_fin2.pcap", "one_http_stream_fin2_output.txt"),
    ("one_tcp_stream_max_seq.pcap", "one_tcp_stream_output.txt"),
]


def said(name: str) -> bytes:
    return (PCPP / name).read_bytes().replace(b"\r\n", b"\n")


@real
@pytest.mark.parametrize("rows_per_epoch", [None, 1, 4])
@pytest.mark.parametrize(("capture", "wanted"), STREAMS)
def test_streams_equal_those_of_pcapplusplus(capture: str, wanted: str, rows_per_epoch: int | None) -> None:
    found = reassembled(PCPP / capture, rows_per_epoch)
    assert b"".join(found["data"]).replace(b"\r\n", b"\n") == said(wanted)


@real
@pytest.mark.parametrize("rows_per_epoch", [None, 3])
def test_three_streams_of_one_capture_equal_those_of_pcapplusplus(rows_per_epoch: int | None) -> None:
    found = reassembled(PCPP / "three_http_streams.pcap", rows_per_epoch)
    spoken = {
        b"".join(rows["data"]).replace(b"\r\n", b"\n")
        for _, rows in found.group_by(*net.FLOW_KEY, maintain_order=True)
    }
    assert spoken == {said(f"three_http_streams_conn_{n}_output.txt") for n in (1, 2, 3)}


@real
def test_ipv6_streams_equal_those_of_pcapplusplus() -> None:
    assert b"".join(reassembled(PCPP / "one_ipv6_http_stream.pcap")["data"]).replace(b"\r\n", b"\n") == said(
        "one_ipv6_http_stream.txt"
    )


def disturbed() -> list[dict[str, object]]:
    """The segments of the capture whose disturbed versions PcapPlusPlus has answers for."""
    return net.tcp_segments(rows_in(PCPP / "one_tcp_stream_max_seq.pcap")).rows(named=True)


def spoken_by(rows: list[dict[str, object]], cuts: Sequence[int] = ()) -> bytes:
    """What was said, with what is missing, in PcapPlusPlus' words."""
    table = net.tcp_segments(rows_in(PCPP / "one_tcp_stream_max_seq.pcap"))
    found = told(net.TcpStreams(), pl.DataFrame(rows, schema=table.schema), cuts)["out"]
    return b"".join(
        (b"[%d bytes missing]" % gap if gap else b"") + data
        for data, gap in found.select("data", "gap_bytes").iter_rows()
    )


def again(row: dict[str, object], skip: int, more: bytes = b"", less: int = 0) -> dict[str, object]:
    """A segment sent again: without its beginning or end, or with more behind it."""
    payload = row["payload"]
    assert isinstance(payload, bytes)
    payload = payload[skip : len(payload) - less] + more
    seq = (int(str(row["tcp_seq"])) + skip) % 2**32
    return {**row, "tcp_seq": seq, "payload": payload, "payload_length": len(payload)}


@real
@pytest.mark.parametrize("cuts", [(), (5, 6, 30), tuple(range(0, 36, 2))])
def test_retransmissions_come_out_as_from_pcapplusplus(cuts: tuple[int, ...]) -> None:
    rows = disturbed()
    copies = {
        4: again(rows[4], 0),
        10: again(rows[10], 10),
        13: again(rows[13], 0, less=20),
        19: again(rows[19], 10, less=10),
        21: again(rows[21], 0, b"*" * 10),
        28: again(rows[28], 10, b"*" * 20),
    }
    sent_again = [part for i, row in enumerate(rows) for part in (row, *([copies[i]] if i in copies else []))]
    assert spoken_by(sent_again, cuts) == (PCPP / "one_tcp_stream_retransmission_output.txt").read_bytes()


@real
@pytest.mark.parametrize("cuts", [(), (10, 21, 29)])
def test_disorder_comes_out_as_from_pcapplusplus(cuts: tuple[int, ...]) -> None:
    rows = disturbed()
    for a, b in ((9, 10), (19, 21), (27, 31)):
        rows[a], rows[b] = rows[b], rows[a]
    assert spoken_by(rows, cuts) == (PCPP / "one_tcp_stream_out_of_order_output.txt").read_bytes()


@real
@pytest.mark.parametrize("cuts", [(), (30,)])
def test_a_lost_segment_comes_out_as_from_pcapplusplus(cuts: tuple[int, ...]) -> None:
    rows = disturbed()
    del rows[30]
    assert spoken_by(rows, cuts) == (PCPP / "one_tcp_stream_missing_data_output_ooo.txt").read_bytes()


def ends_of(name: str) -> frozenset[tuple[str, int]]:
    """The two ends that a file of PcapPlusPlus is named after."""
    found = re.findall(r"([\d.]+)\.(\d+)(?:-|$)", name)
    return frozenset((address, int(port)) for address, port in found)


def conversations(found: pl.DataFrame) -> dict[frozenset[tuple[str, int]], list[list[bytes]]]:
    """What each side of each conversation said, in PcapPlusPlus' words."""
    named = found.with_columns(
        a=net.ip_text(found["a_ip_high"], found["a_ip_low"]),
        b=net.ip_text(found["b_ip_high"], found["b_ip_low"]),
    )
    ours: dict[frozenset[tuple[str, int]], list[list[bytes]]] = {}
    columns = ("a", "a_port", "b", "b_port", "forward", "gap_bytes", "data")
    for a, a_port, b, b_port, forward, gap, data in named.select(columns).iter_rows():
        sides = ours.setdefault(frozenset([(a, a_port), (b, b_port)]), [[], []])
        sides[forward].append((b"[%d bytes missing]" % gap if gap else b"") + data)
    return ours


def is_told_by(sides: list[list[bytes]], text: bytes) -> bool:
    """Whether a text is all that both sides said, in turns: who waits for whom is each tool's own choice."""
    at, left = 0, [iter(side) for side in sides]
    upcoming = [next(side, None) for side in left]
    while at < len(text):
        turn = next((i for i in (0, 1) if upcoming[i] and text.startswith(upcoming[i] or b"", at)), None)
        if turn is None:
            return False
        at += len(upcoming[turn] or b"")
        upcoming[turn] = next(left[turn], None)
    return upcoming == [None, None]


@real
@pytest.mark.parametrize("rows_per_epoch", [None, 500])
def test_conversations_equal_the_files_that_pcapplusplus_wrote(rows_per_epoch: int | None) -> None:
    ours = conversations(reassembled(EXAMPLES / "pcap_examples" / "http-packets.pcap", rows_per_epoch))
    files = list((EXAMPLES / "expected_output" / "tcpreassembly_multiple_streams").iterdir())
    assert len(files) == len(ours) == 12
    for file in files:
        assert is_told_by(ours[ends_of(file.name.removesuffix(".txt"))], file.read_bytes()), file.name


def piece_by_piece(found: pl.DataFrame) -> pl.Series:
    """Whether each row begins where the one before it in its stream ended, but for the gap."""
    stream = (*net.FLOW_KEY, "forward", "connection")
    end = pl.col("offset") + pl.col("data").bin.size()
    begins = end.shift(1).over(stream).fill_null(0) + pl.col("gap_bytes")
    # A flow that was silent for long begins anew at 0.
    return found.select((pl.col("offset") == begins) | (pl.col("offset") == pl.col("gap_bytes"))).to_series()


@real
def test_all_streams_of_the_corpus_have_no_hole_that_is_not_told() -> None:
    files = [path for path in DATA.rglob("*") if path.suffix in (".pcap", ".pcapng", ".cap")]
    defragment, streams_of = net.Defragment(), net.TcpStreams()
    packets = streamed = 0
    for file in files:
        try:
            rows = rows_in(file)
        except NotACapture:
            continue
        whole, kept = Kept(), Kept()
        defragment.process(rows, defragment.init_state(), whole)
        state = streams_of.init_state()
        for part in net.tcp_segments(pl.concat(whole.made["out"])).iter_slices(1000):
            streams_of.process(part, state, kept)
        streams_of.on_punctuation(dt.datetime.max, state, kept)
        assert not len(state["flows"])
        assert not len(state["waiting"])
        packets += rows.height
        if "out" in kept.made:
            found = pl.concat(kept.made["out"])
            assert piece_by_piece(found).all(), file
            streamed += sum(found["data"].bin.size().to_list())
    assert packets > 50_000
    assert streamed > 10_000_000
