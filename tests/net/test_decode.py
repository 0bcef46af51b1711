"""Packets made by hand, layer by layer, to columns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.net import making as m
from tests.net.rows import rows_of

from penstock.net import _decode, ip_text
from penstock.net._layout import REASONS, TUNNELS
from penstock.net.capture import Walk, read_header
from penstock.net.columns import DEFAULT, TYPES, schema_of
from penstock.net.decoding import decode_block
from penstock.net.feeds import BytesFeed
from penstock.topology.schema import Schema


def decoded(
    packets: list[bytes], link: int = m.ETHERNET, *, snap: int = 65535, most_tunnels: int = 8
) -> pl.DataFrame:
    data = m.pcap(packets, link=link, snap=snap)
    header = read_header(data[:24])
    assert header is not None
    walk = Walk(header, BytesFeed(iter([data[24:]])), base=24)
    return pl.concat([decode_block(block, DEFAULT, most_tunnels) for block in walk.blocks()])


def row(packet: bytes, link: int = m.ETHERNET, **options: Any) -> dict[str, Any]:
    found = decoded([packet], link, **options)
    texts = {
        name: ip_text(found[f"{name}_high"], found[f"{name}_low"])[0]
        for name in ("src_ip", "dst_ip", "outer_src_ip", "outer_dst_ip")
    }
    values = found.row(0, named=True)
    return {**values, **texts, "reason": REASONS[values["reason"]], "tunnel": TUNNELS[values["tunnel"]]}


def part(found: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    return {name: found[name] for name in wanted}


PLAIN = m.ipv4(m.udp(b"hello"))
INSIDE = {"src_ip": "10.0.0.1", "dst_ip": "10.0.0.2", "src_port": 1111, "dst_port": 2222, "payload_length": 5}


@pytest.mark.parametrize(
    ("link", "packet"),
    [
        (1, m.ethernet(PLAIN)),
        *((kind, PLAIN) for kind in (12, 14, 101, 228)),
        (0, b"\x02\0\0\0" + PLAIN),
        (0, b"\0\0\0\x02" + PLAIN),
        (108, b"\0\0\0\x02" + PLAIN),
        (113, bytes(14) + b"\x08\0" + PLAIN),
        (276, b"\x08\0" + bytes(18) + PLAIN),
        (9, b"\xff\x03\0\x21" + PLAIN),
        (9, b"\0\x21" + PLAIN),
        (9, b"\x21" + PLAIN),
        (104, b"\x0f\0\x08\0" + PLAIN),
        (1, m.ethernet(b"\x11\0\0\x01\0\x10\0\x21" + PLAIN, 0x8864)),
        (1, m.ethernet(b"\0\x01\x21\xff" + PLAIN, 0x8847)),
        (1, m.ethernet(b"\0\x01\x20\xff\0\x02\x01\xff" + PLAIN, 0x8848)),
        (1, m.ethernet(b"\xaa\xaa\x03\0\0\0\x08\0" + PLAIN, len(PLAIN) + 8)),
    ],
)
def test_every_link_type_leads_to_the_same_packet(link: int, packet: bytes) -> None:
    found = row(packet, link)
    assert part(found, **INSIDE) == INSIDE
    assert found["reason"] == "ok"
    assert packet[found["payload_offset"] :] == b"hello"


def test_tags_are_kept_outermost_first() -> None:
    found = row(m.ethernet(PLAIN, tags=[(0x88A8, 100), (0x8100, 200)]))
    assert (found["vlan"], found["inner_vlan"], found["src_port"]) == (100, 200, 1111)


def test_tcp_behind_ip_options_has_its_flags_and_numbers() -> None:
    found = row(m.ethernet(m.ipv4(m.tcp(b"abc", options=bytes(8)), 6, options=bytes(8))))
    wanted = {
        "tcp_flags": 0x18,
        "tcp_seq": 100,
        "tcp_ack": 200,
        "tcp_window": 512,
        "payload_length": 3,
        "ttl": 64,
    }
    assert part(found, **wanted) == wanted
    assert found["payload_offset"] == 14 + 28 + 28


def test_the_quick_way_and_the_long_way_agree() -> None:
    for carried in (m.ipv4(m.tcp(b"x" * 30, options=bytes(4)), 6), m.ipv4(m.udp(b"y" * 9))):
        quick, long = row(m.ethernet(carried)), row(m.ethernet(carried, tags=[(0x8100, 0)]))
        assert long.pop("payload_offset") == quick.pop("payload_offset") + 4
        for name in ("length", "captured"):
            assert long.pop(name) == quick.pop(name) + 4
        assert quick == long


def test_ipv6_extension_headers_are_passed() -> None:
    behind = (
        bytes([60, 0])
        + bytes(6)
        + bytes([44, 0])
        + bytes(6)
        + bytes([17, 0, 0, 1, 0, 0, 0, 9])
        + m.udp(b"hey")
    )
    found = row(m.ethernet(m.ipv6(behind, 0), 0x86DD))
    wanted = {
        "protocol": 17,
        "src_port": 1111,
        "more_fragments": 1,
        "fragment_id": 9,
        "src_ip": "::1",
        "reason": "ok",
    }
    assert part(found, **wanted) == wanted


def test_a_later_fragment_has_no_ports() -> None:
    found = row(m.ethernet(m.ipv4(b"\x11" * 40, fragment=0x2005)))
    wanted = {"src_port": 0, "fragment_offset": 40, "more_fragments": 1, "fragment_id": 7, "reason": "ok"}
    assert part(found, **wanted) == wanted


OUTER: dict[str, Any] = {"src": "172.16.0.1", "dst": "172.16.0.2"}
TUNNELLED = [
    ("ipip", 0, m.ipv4(PLAIN, 4, **OUTER)),
    ("gre", 0, m.ipv4(b"\0\0\x08\0" + PLAIN, 47, **OUTER)),
    ("gre", 77, m.ipv4(b"\x30\0\x65\x58" + b"\0\0\0\x4d\0\0\0\x01" + m.ethernet(PLAIN), 47, **OUTER)),
    ("vxlan", 300, m.ipv4(m.udp(b"\x08\0\0\0\0\x01\x2c\0" + m.ethernet(PLAIN), dst=4789), **OUTER)),
    (
        "geneve",
        5,
        m.ipv4(m.udp(b"\x01\0\x65\x58\0\0\x05\0" + bytes(4) + m.ethernet(PLAIN), dst=6081), **OUTER),
    ),
    ("geneve", 5, m.ipv4(m.udp(b"\0\0\x08\0\0\0\x05\0" + PLAIN, dst=6081), **OUTER)),
    ("gtp-u", 0xCAFE, m.ipv4(m.udp(m.gtp(PLAIN), dst=2152), **OUTER)),
    ("gtp-u", 0xCAFE, m.ipv4(m.udp(m.gtp(PLAIN, extensions=[b"ab", b"abcdef"]), src=2152), **OUTER)),
]


@pytest.mark.parametrize(("kind", "number", "packet"), TUNNELLED)
def test_a_tunnel_shows_the_packet_inside_and_the_addresses_outside(
    kind: str, number: int, packet: bytes
) -> None:
    found = row(m.ethernet(packet))
    wanted = {
        **INSIDE, "tunnel": kind, "tunnel_id": number, "tunnel_depth": 1, "reason": "ok",
        "outer_src_ip": "172.16.0.1", "outer_dst_ip": "172.16.0.2",
    }  # fmt: skip
    assert part(found, **wanted) == wanted
    outside = row(m.ethernet(packet), most_tunnels=0)
    assert (outside["src_ip"], outside["tunnel"]) == ("172.16.0.1", "none")


def test_ipv6_travels_in_ipv4_and_the_other_way_round() -> None:
    six = m.ipv6(m.udp(b"hello"))
    assert row(m.ethernet(m.ipv4(six, 41)))["tunnel"] == "6in4"
    assert row(m.ethernet(m.ipv6(PLAIN, 4), 0x86DD))["tunnel"] == "4in6"
    assert row(m.ethernet(m.ipv6(six, 41), 0x86DD))["tunnel"] == "6in6"
    assert row(m.ethernet(m.ipv4(m.udp(m.gtp(six), dst=2152))))["src_ip"] == "::1"


def test_tunnels_are_followed_only_so_deep() -> None:
    packet = PLAIN
    for _ in range(20):
        packet = m.ipv4(packet, 4)
    found = row(m.ethernet(packet))
    assert (found["tunnel_depth"], found["protocol"]) == (8, 4)


@pytest.mark.parametrize(
    ("reason", "packet", "link"),
    [
        ("unknown link type", b"abc", 147),
        ("truncated link header", b"abc", 1),
        ("not IP", m.ethernet(bytes(28), 0x0806), 1),
        ("truncated IP header", m.ethernet(PLAIN[:15]), 1),
        ("bad IP version", m.ethernet(b"\x75" + PLAIN[1:]), 1),
        ("bad IP version", m.ethernet(PLAIN, 0x86DD), 1),
        ("bad IP header length", m.ethernet(b"\x44" + PLAIN[1:]), 1),
        ("bad IP length", m.ethernet(m.ipv4(m.udp(b""), total=19)), 1),
        ("IP longer than the packet", m.ethernet(m.ipv4(m.udp(b"hello"), total=500)), 1),
        (
            "truncated IP options or extension header",
            m.ethernet(m.ipv6(b"\x3c\x09" + bytes(6), 0), 0x86DD),
            1,
        ),
        ("truncated transport header", m.ethernet(m.ipv4(m.udp(b"")[:6])), 1),
        ("bad transport length", m.ethernet(m.ipv4(m.udp(b"")[:5] + b"\x03\0\0")), 1),
        ("malformed inner packet", m.ethernet(m.ipv4(b"\x95" + PLAIN[1:], 4)), 1),
    ],
)
def test_what_is_wrong_with_a_packet_has_a_name(reason: str, packet: bytes, link: int) -> None:
    assert row(packet, link)["reason"] == reason


def test_a_packet_cut_by_the_capture_keeps_the_lengths_of_the_wire() -> None:
    found = row(m.ethernet(m.ipv4(m.tcp(b"x" * 1000), 6)), snap=64)
    wanted = {"length": 1054, "captured": 64, "payload_length": 1000, "reason": "ok"}
    assert part(found, **wanted) == wanted


def test_a_false_gtp_packet_stays_udp() -> None:
    found = row(m.ethernet(m.ipv4(m.udp(b"GET / HTTP/1.1 and so on", dst=2152))))
    assert (found["tunnel"], found["dst_port"], found["reason"]) == ("none", 2152, "ok")


def test_every_column_has_its_declared_type() -> None:
    from penstock.frames.types import of_frame

    data = m.pcap([m.ethernet(PLAIN)])
    header = read_header(data[:24])
    assert header is not None
    block = next(Walk(header, BytesFeed(iter([data[24:]])), base=24).blocks())
    frame = decode_block(block, tuple(TYPES))
    assert of_frame(frame) == Schema.of(schema_of(tuple(TYPES)))
    assert frame["packet"].to_list() == [m.ethernet(PLAIN)]


def test_the_bytes_of_a_packet_are_those_captured_however_few_and_stay_when_rows_are_moved() -> None:
    packets = [bytes(range(size)) for size in (0, 1, 4, 5, 12, 13, 14, 200, 0, 3)]
    frame = rows_of(packets)
    assert frame["packet"].to_list() == packets
    assert frame[::-1]["packet"].to_arrow().cast("large_binary").to_pylist() == packets[::-1]
    assert frame.select(pl.col("packet").bin.slice(1, 11)).to_series().to_list() == [p[1:12] for p in packets]
    assert rows_of([])["packet"].to_list() == []


def test_packets_too_far_apart_for_arrows_views_are_moved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [m.ethernet(m.ipv4(m.udp(bytes([n]) * 50))) for n in range(4)]
    expected = rows_of(packets)["packet"]
    monkeypatch.setattr(_decode, "MOST_VIEWED", 100)
    assert rows_of(packets)["packet"].to_list() == expected.to_list() == packets
