"""The Gb interface: frames to labels, subscribers and cells, and to the packets inside."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.net import gprs_making as g
from tests.net import making as m
from tests.net.answers import DATA, MISSING
from tests.net.test_decode import INSIDE, PLAIN, part, row
from tests.net.test_fuzz import edited, edits

from penstock import net
from penstock.frames.types import of_frame
from penstock.net._layout import REASONS

FOLDER = DATA / "gtp" / "gb_gprs" / "openbsc"
with_data = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
THEIR_NAMES = {
    "RESET": "NS-RESET",
    "RESET_ACK": "NS-RESET-ACK",
    "ALIVE": "NS-ALIVE",
    "ALIVE_ACK": "NS-ALIVE-ACK",
    "UNBLOCK": "NS-UNBLOCK",
    "UNBLOCK_ACK": "NS-UNBLOCK-ACK",
    "UNITDATA": "NS-UNITDATA",
    "BVC_RESET": "BVC-RESET",
    "BVC_RESET_ACK": "BVC-RESET-ACK",
    "BVC_SUSPEND": "SUSPEND",
    "BVC_SUSPEND_ACK": "SUSPEND-ACK",
    "FLOW_CONTROL_BVC": "FLOW-CONTROL-BVC",
    "FLOW_CONTROL_BVC_ACK": "FLOW-CONTROL-BVC-ACK",
    "LLC_DISCARDED": "LLC-DISCARDED",
    "PAGING_PS": "PAGING-PS",
    "ATTACH REQUEST": "ATTACH REQUEST",
    "ATTACH ACCEPT": "ATTACH ACCEPT",
    "ATTACH COMPLETE": "ATTACH COMPLETE",
    "ATTACH REJECT": "ATTACH REJECT",
    "IDENT REQUEST": "IDENTITY REQUEST",
    "IDENT RESPONSE": "IDENTITY RESPONSE",
    "DETACH REQ": "DETACH REQUEST",
    "DETACH ACC": "DETACH ACCEPT",
    "DETACH ACCEPT": "DETACH ACCEPT",
    "GMM INFO": "GMM INFORMATION",
    "RA UPD REQ": "RA UPDATE REQUEST",
    "RA UPD ACC": "RA UPDATE ACCEPT",
    "RA UDP ACC": "RA UPDATE ACCEPT",
    "RA UDP REJ": "RA UPDATE REJECT",
    "RA UPD COMPLETE": "RA UPDATE COMPLETE",
    "ACT PDP CTX REQ": "ACTIVATE PDP CONTEXT REQUEST",
    "XID": "LLC XID",
    "LL11 DNS QUERY": "SN-UNITDATA",
    "LL11 DNS RESP": "SN-UNITDATA",
}


@pytest.fixture(scope="module")
def frames() -> pl.DataFrame:
    """The authors' frames, ours beside their labels."""
    theirs = pl.read_csv(FOLDER / "gbproxy_frames.tsv", separator="\t", quote_char=None)
    ours = net.gb_frames(g.read_all(FOLDER / "gbproxy_frames_wrapped.pcap"))
    return ours.with_columns(theirs.select("section", "dir", "label", "hex").get_columns())


@with_data
def test_all_frames_have_the_labels_of_their_authors(frames: pl.DataFrame) -> None:
    assert frames.height == 811
    labelled = frames.filter(pl.col("dir") == "in")
    for label, pdu, bssgp in labelled.select("label", "pdu", "bssgp_type").iter_rows():
        plain = re.sub(r" \(.*", "", label)
        assert THEIR_NAMES[plain] == pdu, label
        if label.endswith(("(UL)", "(DL)")):
            assert bssgp == (1 if label.endswith("(UL)") else 0)
    assert labelled.height == 407


@with_data
def test_what_the_proxy_sends_on_goes_the_way_that_its_label_says(frames: pl.DataFrame) -> None:
    sent = frames.filter((pl.col("dir") == "out") & pl.col("bssgp_type").is_in([0, 1]))
    towards = sent.select(pl.col("label").str.starts_with("to SGSN"), pl.col("bssgp_type") == 1)
    assert sent.height == 189
    assert towards.to_series(0).equals(towards.to_series(1).alias("label"))
    assert frames["pdu"].null_count() == 0


@with_data
def test_subscribers_are_those_that_the_authors_print(frames: pl.DataFrame) -> None:
    printed = (FOLDER / "gbproxy_test.ok").read_text()
    pairs = set()
    for tllis, imsi in re.findall(r"TLLI ([0-9a-f/]+ -> [0-9a-f/]+), IMSI (\d+)", printed):
        pairs |= {(int(tlli, 16), imsi) for tlli in re.split(r"/| -> ", tllis)}
    told = frames.filter(pl.col("imsi").is_not_null() & pl.col("tlli").is_not_null())
    ours = set(told.select("tlli", "imsi").rows())
    # One frame has a TLLI that the authors' proxy is meant not to know.
    assert ours == pairs | {(0xEEBADBAD, "12131415161718")}
    assert len(pairs) == 20


@with_data
def test_cells_are_those_of_the_frames(frames: pl.DataFrame) -> None:
    told = frames.filter(pl.col("cell").is_not_null() & (pl.col("bssgp_type") == 1))
    for mcc, mnc, lac, rac, cell, text in told.select("mcc", "mnc", "lac", "rac", "cell", "hex").iter_rows():
        element = text[text.index("0888", 20) + 4 :][:16]
        plmn = element[1] + element[0] + element[3] + element[5] + element[4] + element[2].replace("f", "")
        assert (mcc + mnc, lac, rac, cell) == (
            plmn, int(element[6:10], 16), int(element[10:12], 16), int(element[12:16], 16),
        )  # fmt: skip
    assert told.height > 200


@with_data
def test_the_name_service_inside_of_sndcp_is_decoded(frames: pl.DataFrame) -> None:
    inner = frames.filter(pl.col("tunnel") == net.TUNNELS.index("gb"))
    assert inner.height == frames.filter(pl.col("pdu") == "SN-UNITDATA").height == 16
    assert inner["tunnel_id"].equals(inner["tlli"].alias("tunnel_id"))
    assert inner["reason"].unique().to_list() == [0]
    ends = inner.select(
        net.ip_text(inner["src_ip_high"], inner["src_ip_low"]).alias("src"), "src_port",
        net.ip_text(inner["dst_ip_high"], inner["dst_ip_low"]).alias("dst"), "dst_port",
    )  # fmt: skip
    query, answer = ("10.192.7.228", 44459, "172.16.1.10", 53), ("172.16.1.10", 53, "10.192.7.228", 44459)
    assert sorted(ends.rows()) == sorted([query, answer] * 8)
    for packet, place, length in inner.select("packet", "payload_offset", "payload_length").iter_rows():
        message = packet[place : place + length]
        assert message[:2] == b"\x3b\xe0"
        assert message[12:24] == b"\x01m\x05heise\x02de\0"


def gb_row(llc: bytes, **options: Any) -> dict[str, Any]:
    return row(g.gb_sent(g.gb_unit(llc, **options)))


def test_a_packet_in_sndcp_shows_as_in_any_tunnel() -> None:
    for is_up in (True, False):
        found = gb_row(g.sndcp(PLAIN), is_up=is_up)
        wanted = {
            **INSIDE, "tunnel": "gb", "tunnel_id": 0xC0DEAD01, "tunnel_depth": 1, "reason": "ok",
            "outer_src_ip": "1.2.3.4", "outer_dst_ip": "5.6.7.8",
        }  # fmt: skip
        assert part(found, **wanted) == wanted
    inside = row(g.gb_sent(g.gb_unit(g.sndcp(m.ipv6(m.udp(b"hello"))))))
    assert (inside["src_ip"], inside["ip_version"], inside["payload_length"]) == ("::1", 6, 5)


@pytest.mark.parametrize(
    ("reason", "llc"),
    [
        ("ciphered LLC frame", g.sndcp(PLAIN, control=0xC003)),
        ("LLC frame in acknowledged mode", g.sndcp(PLAIN, control=0x0001)),
        ("LLC frame in acknowledged mode", g.sndcp(PLAIN, flags=0x45)),
        ("compressed SNDCP packet", g.sndcp(PLAIN, coding=0x01)),
        ("compressed SNDCP packet", g.sndcp(PLAIN, coding=0x10)),
        ("later segment of an SNDCP packet", g.sndcp(PLAIN, flags=0x25)),
        ("malformed inner packet", g.sndcp(b"")),
        ("malformed inner packet", g.sndcp(b"\x95" + PLAIN[1:])),
        ("malformed inner packet", b"\x0b"),
    ],
)
def test_what_does_not_show_a_packet_has_a_reason(reason: str, llc: bytes) -> None:
    found = gb_row(llc)
    assert found["reason"] == reason
    assert (found["src_ip"], found["tunnel_depth"]) == ("1.2.3.4", 0)


def test_a_first_segment_shows_its_packet_and_says_so() -> None:
    whole = m.ipv4(m.udp(b"x" * 100))
    found = gb_row(g.sndcp(whole[:60], flags=0x75))
    wanted = {
        "reason": "first segment of an SNDCP packet",
        "tunnel": "gb",
        "src_port": 1111,
        "ip_length": 128,
    }
    assert part(found, **wanted) == wanted


def test_the_check_sequence_is_not_part_of_a_packet() -> None:
    found = gb_row(g.sndcp(m.ipv4(m.udp(b"hello"), total=35)))
    assert (found["reason"], found["payload_length"]) == ("IP longer than the packet", 5)


def test_signalling_and_other_traffic_on_the_port_stay_packets_of_udp() -> None:
    signalling = b"\x01\xc0\x05\x08\x16FCS"
    for payload in (b"\x0a", g.gb_unit(signalling), b"GET / HTTP/1.1", b"\0\0\0\0\x22" + bytes(20)):
        found = row(g.gb_sent(payload))
        wanted = {"tunnel": "none", "tunnel_id": 0, "reason": "ok", "payload_length": len(payload)}
        assert part(found, **wanted) == wanted


SEEDS = [
    g.gb_sent(frame)
    for frame in (
        g.gb_unit(g.sndcp(PLAIN)),
        g.gb_unit(g.sndcp(PLAIN), is_up=False),
        g.gb_unit(g.sndcp(PLAIN, flags=0x75)),
        g.gb_unit(b"\x01\xc0\x05\x08\x16\x08\x11\x12\x13\x14\x15\x16\x17\x18FCS"),
        g.gb_unit(b"\x01\xc0\x01\x08\x01\x02\xf5\xe0\x21\x08\x02\x08\x11\x12\x13\x14\x15\x16\x17\x18FCS"),
        b"\0\0\0\0\x0b\x1f\x84\xcc\xd1\x75\x8b\x1b\x86\x11\x22\x33\x40\x50\x60",
    )
]  # fmt: skip


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(SEEDS), edits, st.integers(0, 1 << 10)), min_size=1, max_size=8))
def test_every_frame_becomes_a_row_whatever_it_holds(
    made: list[tuple[bytes, list[tuple[int, int]], int]],
) -> None:
    packets = [edited(*each) for each in made]
    rows = g.rows_of(packets)
    found = net.gb_frames(rows)
    assert found.height == len(packets)
    assert (found["reason"] < len(REASONS)).all()
    assert (found["payload_offset"] <= found["length"]).all()
    told = of_frame(found.select(net.GB_FRAMES.names))
    assert told == net.GB_FRAMES
    # A frame says the same, whatever lies behind it in memory.
    alone = pl.concat([net.gb_frames(g.rows_of([packet])) for packet in packets])
    assert alone.select(net.GB_FRAMES.names).equals(found.select(net.GB_FRAMES.names))
