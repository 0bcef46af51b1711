"""Messages of GTP's control plane to rows, whatever they hold."""

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
from tests.net.test_fuzz import edited, edits

from penstock import net
from penstock.frames.types import of_frame

GTP = DATA / "gtp"
with_data = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)


def messages(path: str) -> list[dict[str, Any]]:
    return net.control_messages(g.read_all(GTP / path)).to_dicts()


def part(found: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(found[name] for name in names)


def ends(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(text(end["ip_high"], end["ip_low"]), end["teid"]) for end in found["user_tunnels"]]


def text(high: int, low: int) -> str:
    halves = (pl.Series([half], dtype=pl.UInt64) for half in (high, low))
    found: str = net.ip_text(*halves)[0]
    return found


def zeek_events() -> list[dict[str, str]]:
    """The requests and responses that Zeek prints, with its words for what they hold."""
    out = (GTP / "zeek_tunnels/Baseline/core.tunnels.gtp.pdp_ctx_messages/out").read_text()
    found = re.findall(r"^gtp create \w+, .*\n(\[version.*)\n(\[.*)$", out, re.MULTILINE)
    return [dict(re.findall(r"(?:^\[|[ \[])(\w+)=([^\[,\]]+)", head + ", " + body)) for head, body in found]


@with_data
def test_requests_and_responses_equal_those_of_zeek() -> None:
    theirs = zeek_events()
    ours = [found for found in messages("zeek_tunnels/gtp/pdp_ctx_messages.pcapng") if found["version"] == 1]
    ours = [found for found in ours if found["kind"] != "other"]
    assert len(ours) == len(theirs) == 4
    for found, zeek in zip(ours, theirs, strict=True):
        assert part(found, "message_type", "teid", "sequence", "control_teid") == tuple(
            int(zeek[name]) for name in ("msg_type", "teid", "seq", "cp")
        )
        assert [teid for _, teid in ends(found)] == [int(zeek["data1"])]
        assert found["imsi"] == zeek.get("imsi")
        if "cause" in zeek:
            assert (found["cause"], found["user_ips"]) == (int(zeek["cause"]), [zeek["pdp_ip"]])
        if "lac" in zeek:
            assert (int(found["mcc"]), int(found["mnc"]), found["area"]) == tuple(
                int(zeek[name]) for name in ("mcc", "mnc", "lac")
            )
            assert found["location"] == "rai"
        if "ap_name" in zeek:
            assert re.fullmatch(r"\\x\d\d" + found["apn"], zeek["ap_name"])


@with_data
def test_addresses_of_control_and_user_plane_are_told_apart() -> None:
    _, response = messages("zeek_tunnels/gtp/pdp_ctx_messages.pcapng")[:2]
    assert text(*part(response, "control_ip_high", "control_ip_low")) == "10.100.200.34"
    assert ends(response) == [("10.100.200.49", 268435589)]


@with_data
def test_version_0_is_read_with_the_subscriber_in_its_header_and_user_packets_are_left_out() -> None:
    old = [found for found in messages("zeek_tunnels/gtp/pdp_ctx_messages.pcapng") if found["version"] == 0]
    assert [found["message_type"] for found in old] == [16, 17, 1, 2]
    assert part(old[0], "imsi", "msisdn", "apn") == ("240010123456789", "46702123456", "internet")
    assert part(old[1], "imsi", "cause", "user_ips") == ("240010123456789", 128, ["192.168.0.3"])


@with_data
def test_version_2_of_magma_is_read() -> None:
    request, response, first, _, second, _, delete, gone = messages("magma/nsa_connection.pcap")
    assert part(request, "kind", "imsi", "apn", "mcc", "mnc") == (
        "create request", "222010100001140", "oai.ipv4", "222", "01",
    )  # fmt: skip
    assert part(request, "location", "area", "cell") == ("ecgi", 1, 0xE0100)
    assert part(response, "user_ips", "cause", "control_teid") == (["12.1.1.2"], 16, 2)
    assert ends(response) == [("192.168.61.133", 2)]
    assert ends(first) == [("192.168.18.199", 0xCA6FE0DD)]
    assert ends(second) == [("192.168.18.198", 0x3DB0B51D)]
    assert part(delete, "kind", "teid", "linked_bearer") == ("delete request", 2, 5)
    assert part(gone, "kind", "cause", "is_accepted") == ("delete response", 16, True)


@with_data
def test_a_roaming_subscriber_is_read() -> None:
    request, response, *_ = messages("magma/inbound_roaming_01_210505_130828-1.pcapng")
    assert part(request, "imsi", "msisdn", "apn") == ("001020000000064", "0012000", "roam")
    assert (ends(request), ends(response)) == ([("172.16.20.4", 1)], [("172.16.20.150", 0x16000000)])
    assert part(response, "control_teid", "user_ips") == (0x13, ["192.168.126.1"])


@with_data
def test_a_message_on_the_back_of_another_is_read_and_what_is_wrong_has_a_reason() -> None:
    found = messages("pcapplusplus/gtpv2.pcap")
    reasons = [net.CONTROL_REASONS[row["reason"]] for row in found]
    assert reasons == [
        "ok",
        "ok",
        "ok",
        "malformed message behind another one",
        "ok",
        "longer than the packet",
    ]
    assert part(found[0], "mcc", "mnc", "area", "cell") == ("466", "92", 0x2E18, 0x1CE6621)
    assert [row["message_type"] for row in found] == [34, 1, 33, 1, 34, 34]
    assert part(found[2], "imsi", "sequence") == ("337839439415386", 67890)


@with_data
def test_all_captures_are_read_and_only_one_made_wrong_on_purpose_has_faults() -> None:
    faulty, imsis = {}, set()
    paths = [path for path in GTP.rglob("*.pcap*") if path.suffix in (".pcap", ".pcapng")]
    for path in paths:
        found = net.control_messages(g.read_all(path))
        imsis |= set(found["imsi"].drop_nulls())
        if bad := found.filter(pl.col("reason") > 0).height:
            faulty[path.name] = bad
    assert len(paths) > 50
    assert faulty == {"gtpv2.pcap": 2}
    assert imsis == {
        "460004100000101", "240010123456789", "222010100001140", "001020000000064", "337839439415386",
    }  # fmt: skip


def read(message: bytes, port: int = 2123) -> dict[str, Any]:
    (row,) = net.control_messages(g.rows_of([g.sent(message, "10.0.0.1", "10.0.0.2", port)])).to_dicts()
    return row


@pytest.mark.parametrize("port", [2123, 3386])
def test_gtp_prime_is_recognised(port: int) -> None:
    for head in (b"\x0f", b"\x2f", b"\x4f" if port == 3386 else b"\x0f"):
        found = read(head + b"\xf0\0\x03\x12\x34abc", port)
        assert part(found, "kind", "message_type", "sequence", "reason") == ("charging", 240, 0x1234, 0)
    assert part(read(b"\x0e\x01\0\0\0\x07" + bytes(14), port), "kind", "sequence", "reason") == (
        "charging",
        7,
        0,
    )
    assert net.CONTROL_REASONS[read(b"\x0f\xf0\0\x09\x12\x34abc", port)["reason"]] == "longer than the packet"


def test_locations_of_version_1_are_read_and_the_nearest_counts() -> None:
    area = b"\x03" + bytes.fromhex("62f2200102ff")
    for code, kind in ((0, "cgi"), (1, "sai")):
        place = g.tlv_1(152, bytes([code]) + bytes.fromhex("62f22003040506"))
        for elements in (area + place, place + area):
            found = read(g.v1(18, 5, 9, elements))
            wanted = ("262", "02", kind, 0x0304, 0x0506)
            assert part(found, "mcc", "mnc", "location", "area", "cell") == wanted


def test_extension_headers_and_both_kinds_of_addresses_are_read() -> None:
    elements = g.tlv_1(128, b"\xf1\x8d" + bytes([10, 0, 0, 9]) + bytes(15) + b"\x01")
    body = b"\0\x07\0\xc0" + b"\x01\xaa\xbb\0" + elements
    found = read(b"\x36\x11" + len(body).to_bytes(2, "big") + bytes(4) + body)
    assert part(found, "reason", "sequence", "user_ips") == (0, 7, ["10.0.0.9", "::1"])
    address = g.tlv_2(79, b"\x03\x40" + bytes(15) + b"\x02" + bytes([10, 0, 0, 8]))
    assert read(g.v2(33, 1, 1, address))["user_ips"] == ["10.0.0.8", "::2"]


def test_a_tunnel_may_have_ends_in_both_kinds_of_network() -> None:
    end = b"\xc1" + b"\0\0\0\x09" + g.ip("1.2.3.4") + bytes(15) + b"\x05"
    found = read(g.v2(33, 1, 1, g.bearer(6, g.tlv_2(87, end))))
    assert ends(found) == [("1.2.3.4", 9), ("::5", 9)]
    assert [end["bearer"] for end in found["user_tunnels"]] == [6, 6]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("truncated header", b""),
        ("truncated header", b"\x32\x10\0\0"),
        ("truncated header", b"\x48\x20\0\x08"),
        ("truncated header", g.v2(32, 0, 1, b"")[:2] + b"\0\x03" + bytes(8)),
        ("unknown version", b"\x60" + bytes(12)),
        ("longer than the packet", g.v1(16, 0, 1, b"\x0e\x01")[:-1]),
        ("malformed extension header", b"\x36\x10\0\x08" + bytes(4) + b"\0\x01\0\xc0\0\0\0\0"),
        ("unknown element of unknown length", g.v1(16, 0, 1, b"\x0e\x01\x63")),
        ("malformed element", g.v1(16, 0, 1, b"\x02\x00\x01")),
        ("malformed element", g.v2(32, 0, 1, b"\x01\0\x09\0\x11")),
        ("malformed element", g.v2(32, 0, 1, g.tlv_2(86, b"\x10\0"))),
    ],
)
def test_what_is_wrong_with_a_message_has_a_name(reason: str, message: bytes) -> None:
    assert net.CONTROL_REASONS[read(message)["reason"]] == reason


def test_what_comes_before_a_fault_is_kept() -> None:
    found = read(g.v1(16, 0, 1, b"\x02" + g.bcd("001010000000001", 8) + b"\x63"))
    assert (found["imsi"], found["reason"] > 0) == ("001010000000001", True)


def test_a_message_cut_by_the_capture_has_a_reason() -> None:
    rows = g.rows_of([g.sent(g.v1(16, 0, 1, bytes([14, 1]) * 20), "10.0.0.1", "10.0.0.2")], snap=60)
    assert net.CONTROL_REASONS[net.control_messages(rows)["reason"][0]] == "longer than the packet"


def test_control_inside_of_a_subscribers_tunnel_is_not_believed() -> None:
    message = g.v1(21, 1, 1, b"\x01\x80")
    inside = m.ipv4(m.udp(message, src=2123, dst=2123))
    carried = m.ethernet(m.ipv4(m.udp(m.gtp(inside), src=2152, dst=2152)))
    rows = g.rows_of([carried, g.sent(message, "10.0.0.1", "10.0.0.2")])
    assert rows["dst_port"].to_list() == [2123, 2123]
    assert net.control_messages(rows).height == 1


def test_packets_that_are_not_control_make_no_rows() -> None:
    rows = g.rows_of([m.ethernet(m.ipv4(m.udp(b"hello"))), m.ethernet(m.ipv4(m.tcp(b"", dst=2123), 6))])
    found = net.control_messages(rows)
    assert (found.height, of_frame(found)) == (0, net.CONTROL)


SEEDS = [
    g.v1(16, 0, 1, b"\x02" + g.bcd("262010000000001", 8) + b"\x03" + bytes.fromhex("62f2200102ff")
         + b"\x10\0\0\0\x05\x11\0\0\0\x06\x14\x05" + g.tlv_1(128, b"\xf1\x21\x0a\0\0\x01")
         + g.tlv_1(131, b"\x03abc\x02de") + g.tlv_1(133, g.ip("1.1.1.1")) + g.tlv_1(133, bytes(16))
         + g.tlv_1(134, b"\x91" + g.bcd("4917012345678"))
         + g.tlv_1(152, b"\0" + bytes.fromhex("62f22003040506"))),
    b"\x36\x11\0\x0e" + bytes(4) + b"\0\x07\0\xc0\x01\xaa\xbb\0" + b"\x01\x80\x13\xff\x14\x06",
    g.v2(32, 0, 3, g.tlv_2(1, g.bcd("262010000000001", 8)) + g.tlv_2(76, g.bcd("4917012345678"))
         + g.location_2(7, 9) + g.tlv_2(71, b"\x03abc") + g.f_teid(10, 77, "9.9.9.9")
         + g.tlv_2(79, b"\x03\x40" + bytes(20)) + g.bearer(5, g.f_teid(0, 5, "8.8.8.8"))),
    b"\x58\x21\0\x08" + bytes(8)
    + g.v2(95, 0, 3, g.tlv_2(73, b"\x05") + g.bearer(0, g.f_teid(1, 5, "8.8.8.8"))),
    b"\x1e\x10\0\x03\0\x01\0\0" + bytes(4) + b"\x42\0\x01\x21\x43\x65\x87\x09" + b"\x06\x0b\x92",
    b"\x0f\xf0\0\x03\x12\x34abc",
]  # fmt: skip


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(SEEDS) | st.binary(max_size=80),
    edits,
    st.integers(0, 1 << 10),
    st.sampled_from([2123, 3386]),
)
def test_every_message_becomes_a_row_or_two(
    seed: bytes, changes: list[tuple[int, int]], end: int, port: int
) -> None:
    message = edited(seed, changes, end) if seed else b""
    rows = g.rows_of([g.sent(message, "10.0.0.1", "10.0.0.2", port)])
    found = net.control_messages(rows)
    assert found.height <= 2
    is_user_packet = len(message) >= 8 and message[1] == 255 and message[0] & 0xD0 == 0x10
    assert found.height > 0 or is_user_packet
    assert (found["reason"] < len(net.CONTROL_REASONS)).all()
    assert of_frame(found) == net.CONTROL
    for digits in (*found["imsi"].drop_nulls(), *found["msisdn"].drop_nulls()):
        assert digits.isdecimal()
