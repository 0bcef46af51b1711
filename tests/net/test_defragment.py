"""Fragments become the packets that they were, whatever their order and however epochs are cut."""

from __future__ import annotations

import struct
from collections import Counter
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
from penstock.net._fragment_layout import OVERHEAD
from penstock.net.compare_sessions import sessions, zeek_inner
from penstock.testing import run
from penstock.testing.operators import check_operator

BODY = m.udp(bytes(range(256)) * 4)
EXAMPLES = DATA / "decode" / "pcapplusplus"
real = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)


def checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def whole4(body: bytes) -> bytes:
    packet = m.ipv4(body)
    return m.ethernet(packet[:10] + struct.pack(">H", checksum(packet[:20])) + packet[12:])


def part4(body: bytes, begin: int, end: int, src: str = "10.0.0.1") -> bytes:
    more = 0x2000 if end < len(body) else 0
    return m.ethernet(m.ipv4(body[begin:end], fragment=more | begin // 8, src=src))


def part6(body: bytes, begin: int, end: int, following: int = 17, number: int = 99) -> bytes:
    more = 1 if end < len(body) else 0
    head = struct.pack(">BBHI", following, 0, begin | more, number)
    return m.ethernet(m.ipv6(head + body[begin:end], 44), 0x86DD)


def whole6(body: bytes) -> bytes:
    return m.ethernet(m.ipv6(body, 17), 0x86DD)


def packets(rows: pl.DataFrame) -> list[bytes]:
    return rows["packet"].to_list()


def test_whole_packets_pass_untouched_and_in_their_places() -> None:
    before, after = m.ethernet(m.ipv4(m.udp(b"a"))), m.ethernet(m.ipv4(m.udp(b"b")))
    rows = rows_of([before, part4(BODY, 0, 512), after, part4(BODY, 512, len(BODY)), before])
    out = told(net.Defragment(), rows)["out"]
    assert packets(out) == [before, after, whole4(BODY), before]
    untouched = rows.filter(pl.Series([True, False, True, False, True]))
    assert out.filter(pl.Series([True, True, False, True])).equals(untouched)


def test_a_joined_packet_has_the_columns_of_the_packet_and_the_time_of_its_last_fragment() -> None:
    parts = [part4(BODY, 512, len(BODY)), part4(BODY, 0, 512)]
    (out,) = told(net.Defragment(), rows_of(parts, [1, 2.5]))["out"].iter_rows(named=True)
    (wanted,) = rows_of([whole4(BODY)], [2.5]).iter_rows(named=True)
    assert out == wanted


@pytest.mark.parametrize(("part", "whole"), [(part4, whole4), (part6, whole6)])
def test_the_same_comes_out_in_every_way_that_an_operator_may_be_run(part: type, whole: type) -> None:
    edges = [(0, 8), (8, 256), (800, len(BODY)), (256, 800)]
    rows = rows_of([part(BODY, *edge) for edge in edges] + [part(BODY, 0, 8)])
    out = check_operator(
        net.Defragment, [rows[:2], rows[2:4], rows[4:]], times=[moment(0.001), None], same_for="epochs"
    )
    assert packets(out["out"]) == [whole(BODY)]
    assert out["incomplete"].select("fragments", "bytes", "reason").rows() == [(1, 8, "fragments missing")]


@st.composite
def cut_up(draw: st.DrawFn, *, overlapping: bool) -> tuple[bytes, list[tuple[int, int]], list[int]]:
    """A body, parts of it that cover all of it, and where epochs are cut."""
    body = m.udp(draw(st.binary(min_size=16, max_size=600)))
    places = st.integers(1, (len(body) - 1) // 8).map(lambda block: block * 8)
    edges = [0, *sorted(draw(st.sets(places, min_size=1, max_size=12))), len(body)]
    parts = list(pairwise(edges))
    if overlapping:
        more = draw(st.lists(st.tuples(st.sampled_from(edges), st.sampled_from(edges)), max_size=8))
        parts += [(min(a, b), max(a, b)) for a, b in more if a != b and {a, b} != {0, len(body)}]
    parts += draw(st.lists(st.sampled_from(parts), max_size=4))
    order = draw(st.permutations(parts))
    return body, list(order), draw(st.lists(st.integers(0, len(parts)), max_size=5))


@settings(max_examples=60, deadline=None)
@given(cut_up(overlapping=True))
def test_any_fragments_that_agree_give_the_ipv4_packet(
    case: tuple[bytes, list[tuple[int, int]], list[int]],
) -> None:
    body, parts, cuts = case
    rows = rows_of([part4(body, *part) for part in parts])
    out = told(net.Defragment(), rows, cuts)
    assert set(packets(out["out"])) == {whole4(body)}
    assert Counter(packets(out["out"])) == Counter(packets(told(net.Defragment(), rows)["out"]))


@settings(max_examples=60, deadline=None)
@given(cut_up(overlapping=False))
def test_any_cut_with_copies_gives_the_ipv6_packet(
    case: tuple[bytes, list[tuple[int, int]], list[int]],
) -> None:
    body, parts, cuts = case
    out = told(net.Defragment(), rows_of([part6(body, *part) for part in parts]), cuts)
    assert set(packets(out["out"])) == {whole6(body)}


def test_of_overlapping_bytes_in_ipv4_those_that_came_first_win() -> None:
    first, second = b"\x01" * 64, b"\x02" * 64
    parts = [part4(first, 16, 48), part4(second, 32, 64), part4(second, 0, 24)]
    (out,) = packets(told(net.Defragment(), rows_of(parts))["out"])
    assert out[34:] == b"\x02" * 16 + b"\x01" * 32 + b"\x02" * 16


def test_an_ipv6_packet_with_overlapping_fragments_is_discarded_with_all_that_comes_later() -> None:
    parts = [(0, 64), (56, 128), (64, 128), (128, len(BODY))]
    out = told(net.Defragment(), rows_of([part6(BODY, *part) for part in parts]), [2])
    assert out["out"].height == 0
    assert out["incomplete"].select("fragments", "reason").rows() == [
        (2, "overlap"),
        (1, "belongs to a discarded datagram"),
        (1, "belongs to a discarded datagram"),
    ]


def test_ipv6_fragments_belong_together_although_only_the_first_knows_the_transport() -> None:
    body = struct.pack(">BB6x", 17, 0) + BODY  # destination options before UDP
    parts = [part6(body, 0, 512, following=60), part6(body, 512, len(body), following=60)]
    (row,) = told(net.Defragment(), rows_of(parts))["out"].iter_rows(named=True)
    assert (row["protocol"], row["src_port"], row["ip_length"]) == (17, 1111, 40 + len(body))


def test_datagrams_of_other_protocols_ends_and_numbers_are_kept_apart() -> None:
    ours = [part4(BODY, 0, 512), part4(BODY, 512, len(BODY))]
    others = [
        part4(BODY, 512, len(BODY), src="10.0.0.9"),
        m.ethernet(m.ipv4(BODY[512:], 47, fragment=64)),
        ours[1][:18] + b"\x12\x34" + ours[1][20:],
    ]
    out = told(net.Defragment(), rows_of([ours[0], *others]))
    assert out["out"].height == 0
    assert out["incomplete"].height == 4
    assert packets(told(net.Defragment(), rows_of([ours[0], *others, ours[1]]))["out"]) == [whole4(BODY)]


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2)])
def test_fragments_that_waited_too_long_are_not_joined_with_later_ones(cuts: tuple[int, ...]) -> None:
    parts = [part4(BODY, 0, 512), m.ethernet(m.ipv4(m.udp(b"x"))), part4(BODY, 512, len(BODY))]
    rows = rows_of(parts, [0, 40, 41])
    out = told(net.Defragment(timeout="30s"), rows, cuts, [moment(t) for t in (0, 40)][: len(cuts)])
    assert out["out"].height == 1
    assert out["incomplete"].select("time", "bytes", "reason").rows() == [
        (moment(0), 512, "fragments missing"),
        (moment(41), len(BODY) - 512, "fragments missing"),
    ]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([part4(BODY[:80], 40, 80), part4(BODY[:96], 48, 96)], "contradicting lengths"),
        ([part4(BODY, 80, 160), part4(BODY[:80], 40, 80)], "contradicting lengths"),
        ([m.ethernet(m.ipv4(BODY, fragment=0x1FFF))], "too long"),
        ([m.ethernet(m.ipv4(b"\0" * 7, fragment=0x2000))], "malformed fragment"),
        ([part4(BODY, 0, 512)[:200]], "malformed fragment"),
    ],
)
def test_what_cannot_be_a_packet_is_told(parts: list[bytes], reason: str) -> None:
    rows = rows_of(parts).with_columns(length=pl.Series([max(len(p), 546) for p in parts], dtype=pl.UInt32))
    out = told(net.Defragment(), rows)
    assert out["out"].height == 0
    assert out["incomplete"]["reason"].to_list() == [reason]


def hostile(count: int, jitter: float = 0) -> pl.DataFrame:
    """Fragments of many datagrams none of which ends."""
    body = bytes(4000)
    parts = [
        m.ethernet(m.ipv4(body[:64], src=f"10.1.{i // 7 % 200}.{i % 250}", fragment=0x2000 | 8 * (i % 5)))
        for i in range(count)
    ]
    return rows_of(parts, in_bursts(count, jitter))


def test_hostile_fragments_never_hold_more_than_the_bound_and_all_are_told() -> None:
    operator, kept = net.Defragment(slice_bytes=20_000), Kept()
    state = operator.init_state()
    rows = hostile(3000)
    for part in rows.iter_slices(100):
        operator.process(part, state, kept)
        assert sum(len(p) + OVERHEAD for p in state.frame()["packet"]) <= 20_000
    told_of = pl.concat(kept.made["incomplete"])
    assert set(told_of["reason"]) == {"no memory"}
    assert told_of["fragments"].sum() + len(state) <= 3000


@pytest.mark.parametrize("cuts", [(7,), (100, 200, 201), tuple(range(0, 300, 3))])
@pytest.mark.parametrize("jitter", [0, 0.05])
def test_the_bound_gives_up_the_same_packets_however_epochs_are_cut(
    cuts: tuple[int, ...], jitter: float
) -> None:
    operator, rows = net.Defragment(slice_bytes=20_000, timeout="50ms"), hostile(300, jitter)
    once, often = told(operator, rows), told(operator, rows, cuts, clocks(rows, cuts, jitter))
    assert once["incomplete"].sort(pl.all()).equals(often["incomplete"].sort(pl.all()))
    assert set(once["incomplete"]["reason"]) == {"no memory", "fragments missing"}


def test_a_packet_of_too_many_fragments_is_given_up() -> None:
    body = bytes(4000)
    parts = [part4(body, at, at + 8) for at in range(0, 800, 16)]
    out = told(net.Defragment(packet_bytes=5000), rows_of(parts))["incomplete"]
    assert out["reason"].to_list()[0] == "too many fragments"
    assert out["fragments"].sum() == len(parts)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=20), st.integers(0, 2**16 - 1))
def test_bytes_that_nobody_sent_do_no_harm(bodies: list[bytes], flags: int) -> None:
    made = [
        m.ethernet(m.ipv4(body, fragment=flags, total=20 + len(body) * (i % 3)))
        for i, body in enumerate(bodies)
    ]
    made += [m.ethernet(m.ipv6(body, 44), 0x86DD) for body in bodies]
    made += [m.ethernet(m.ipv4(m.ipv6(b"\x2c\0" + body, 60), 41)) for body in bodies]
    told(net.Defragment(packet_bytes=2000, slice_bytes=4000), rows_of([*made, *made]))


def test_fragments_in_a_tunnel_become_the_inner_packet_and_keep_the_tunnel() -> None:
    def tunnelled(inner: bytes) -> bytes:
        return m.ethernet(
            m.ipv4(m.udp(m.gtp(inner), 2152, 2152), src="1.1.1.1", dst="2.2.2.2"), tags=[(0x8100, 5)]
        )

    parts = [tunnelled(part4(BODY, *edge)[14:]) for edge in ((0, 512), (512, len(BODY)))]
    (out,) = told(net.Defragment(), rows_of(parts))["out"].iter_rows(named=True)
    (whole,) = rows_of([tunnelled(whole4(BODY)[14:])], [0.001]).iter_rows(named=True)
    assert out["packet"] == whole4(BODY)[14:]
    size = len(out["packet"])
    changed = {
        "packet": out["packet"], "link_type": 101, "payload_offset": 28, "length": size, "captured": size,
    }  # fmt: skip
    assert out == {**whole, **changed}


def test_what_it_needs_and_gets_not_is_said() -> None:
    with pytest.raises(BadArgument, match="packet"):
        told(net.Defragment(), rows_of([whole4(BODY)]).drop("packet"))
    with pytest.raises(BadArgument):
        net.Defragment(slice_bytes=0)


def defragmented(path: Path, rows_per_epoch: int | None = None) -> dict[str, pl.DataFrame]:
    """A capture through the reference engine."""
    top = ps.Topology("whole")
    rows = top.source("packets", net.Pcap(path, columns=ALL, ends="drained"))
    node = rows.key_by(*net.FRAGMENT_KEY).process("whole", net.Defragment(), parallelism=4)
    node.sink("out", ps.Collect())
    node.output("incomplete").sink("incomplete", ps.Collect())
    return run(top, rows_per_epoch=rows_per_epoch)


PCPP = EXAMPLES / "Pcap++Test" / "PcapExamples"


def hexadecimal(name: str) -> bytes:
    return bytes.fromhex("".join((PCPP / name).read_text().split()))


@real
@pytest.mark.parametrize(
    ("capture", "wanted"),
    [
        ("frag_http_req.pcap", ["frag_http_req_reassembled.txt"]),
        ("frag_with_padding.pcap", ["frag_with_padding_defragmented.dat"]),
        ("ip4_fragments.pcap", [f"ip4_fragments_packet{n}.txt" for n in (1, 4, 6)]),
    ],
)
@pytest.mark.parametrize("rows_per_epoch", [None, 1, 5])
def test_packets_equal_those_of_pcapplusplus(
    capture: str, wanted: list[str], rows_per_epoch: int | None
) -> None:
    found = packets(defragmented(PCPP / capture, rows_per_epoch)["out"])
    for name in wanted:
        assert hexadecimal(name) in found, name


@real
@pytest.mark.parametrize("rows_per_epoch", [None, 1, 5])
def test_ipv6_packets_equal_those_of_pcapplusplus_but_for_the_length(rows_per_epoch: int | None) -> None:
    """The fragments hold four bytes more than UDP says; PcapPlusPlus leaves them out of the length only."""
    found = packets(defragmented(PCPP / "ip6_fragments.pcap", rows_per_epoch)["out"])
    assert len(found) == 4
    for name in ("ip6_fragments_packet1.txt", "ip6_fragments_packet2.txt"):
        wanted = hexadecimal(name)
        length = struct.pack(">H", len(wanted) - 54)
        assert wanted[18:20] == struct.pack(">H", len(wanted) - 58)
        assert wanted[:18] + length + wanted[20:] in found, name


@real
def test_a_capture_equals_that_which_pcapplusplus_wrote() -> None:
    captures = EXAMPLES / "ExamplesTest"
    found = defragmented(captures / "pcap_examples" / "ip-frag.pcap")
    wanted = rows_in(captures / "expected_output" / "no-ip-frag-all.pcap")
    ours, theirs = Counter(packets(found["out"])), Counter(packets(wanted))
    assert ours == theirs


@real
@pytest.mark.parametrize("rows_per_epoch", [None, 7])
def test_inner_sessions_behind_fragments_equal_those_of_zeek(rows_per_epoch: int | None) -> None:
    folder = DATA / "gtp" / "zeek_tunnels"
    found = defragmented(folder / "gtp" / "gtp1_gn_normal_incl_fragmentation.pcap", rows_per_epoch)["out"]
    inner = found.filter(pl.col("tunnel_depth") > 0)
    assert sessions(inner) == zeek_inner(folder / "Baseline" / "core.tunnels.gtp.outer_ip_frag" / "conn.log")
