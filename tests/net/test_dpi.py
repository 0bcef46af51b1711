"""What flows are: two engines, their answers beside nDPI's own, and payloads that are not what they seem."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.net import hellos as h
from tests.net.answers import DATA, MISSING

from penstock import net
from penstock.errors import NdpiUnusable
from penstock.net.compare_applications import compare_applications
from penstock.net.dpi import _engine, abi, engine, ndpi
from penstock.net.dpi.ndpi import Ndpi, one_flow
from penstock.net.dpi.records import Record, pack
from penstock.net.dpi.verdict import Engine, FirstPackets
from penstock.net.quic_keys import V1, V2, initial_keys
from penstock.net.synth.quic import protected

TCP, UDP = 6, 17


NEEDS_NDPI = pytest.mark.skipif(find_spec("_lib_engine") is None, reason="nfstream is not here (extra dpi)")
BOTH = pytest.mark.parametrize("choice", [pytest.param("ndpi", marks=NEEDS_NDPI), "builtin"])


def verdict(
    choice: str, packets: list[Record], protocol: int = TCP, port: int = 443, **more: bool
) -> tuple[str, str | None]:
    found = engine(choice).judge(one_flow(packets, protocol=protocol, src_port=40000, dst_port=port, **more))  # type: ignore[arg-type]
    return found.of(0).application, found.hosts[0]


def is_decided(choice: str, packets: list[Record], protocol: int = TCP, port: int = 443) -> bool:
    flow = one_flow(packets, protocol=protocol, src_port=40000, dst_port=port, is_last=False)
    return bool(engine(choice).judge(flow).is_decided[0])  # type: ignore[arg-type]


@BOTH
def test_the_host_in_dns_http_and_tls_names_the_service(choice: str) -> None:
    assert verdict(choice, [Record(h.dns_query("www.netflix.com"))], UDP, 53) == (
        "DNS.NetFlix",
        "www.netflix.com",
    )
    assert verdict(choice, h.segments(h.HTTP), port=80)[0] == "HTTP.YouTube"
    assert verdict(choice, h.segments(h.client_hello("www.facebook.com"))) == (
        "TLS.Facebook",
        "www.facebook.com",
    )


@BOTH
def test_a_client_hello_in_two_segments_is_put_together_wherever_it_is_cut(choice: str) -> None:
    hello = h.client_hello("m.facebook.com", padding=300)
    for cut in range(6, len(hello) - 1):
        packets = h.segments(hello[:cut], hello[cut:])
        assert verdict(choice, packets) == ("TLS.Facebook", "m.facebook.com"), cut


def test_a_flow_is_not_decided_while_its_host_may_still_come() -> None:
    hello = h.client_hello("m.facebook.com", padding=300)
    cuts = [is_decided("builtin", h.segments(hello[:cut])) for cut in range(1, len(hello) + 1)]
    where_the_name_ends = hello.index(b"m.facebook.com") + len(b"m.facebook.com")
    assert cuts == [size >= where_the_name_ends for size in range(1, len(hello) + 1)]


def test_segments_in_another_order_or_twice_are_the_same_stream() -> None:
    hello = h.client_hello("m.facebook.com", padding=300)
    opened, parts = (
        h.segments(hello[:90], hello[90:200], hello[200:])[:2],
        h.segments(hello[:90], hello[90:200], hello[200:])[2:],
    )
    for order in ([0, 2, 1], [2, 1, 0], [0, 0, 1, 2], [0, 1, 0, 2]):
        assert verdict("builtin", opened + [parts[i] for i in order])[1] == "m.facebook.com", order


SAID: list[tuple[str, list[Record], int, int]] = [
    ("SSH", h.segments(b"SSH-2.0-OpenSSH_9.6\r\n"), TCP, 22),
    ("SSH", h.segments(b"SSH-2.0-OpenSSH_9.6\r\n") + h.answers(b"SSH-2.0-x\r\n"), TCP, 4022),
    ("SMTP", h.segments() + h.answers(b"220 mail.example.org ESMTP x\r\n", b"250 ok\r\n"), TCP, 25),
    ("SIP", h.datagrams([h.SIP]), UDP, 5060),
    ("RTP", h.datagrams([h.rtp(n) for n in range(5, 11)]), UDP, 23044),
    ("BitTorrent", h.segments(b"\x13BitTorrent protocol" + bytes(48)), TCP, 51413),
    ("NTP", h.datagrams([b"\x1b" + bytes(47)]), UDP, 123),
    ("ICMP", [Record(b"abc", icmp_type=8)], 1, 0),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("application", "packets", "protocol", "port"), SAID)
def test_protocols_are_known_by_what_is_said(
    choice: str, application: str, packets: list[Record], protocol: int, port: int
) -> None:
    assert verdict(choice, packets, protocol, port)[0] == application


def quic_packets(hello: bytes, size: int, version: int = V1) -> list[bytes]:
    """A client's hello in Initial packets with so much of it in each, later parts first."""
    destination, source = b"destined", b"from"
    keys = initial_keys(destination, "client", version)
    assert keys is not None
    kind = 0xD0 if version == V2 else 0xC0
    ids = bytes([len(destination)]) + destination + bytes([len(source)]) + source
    head = bytes([kind]) + version.to_bytes(4, "big") + ids + b"\0"
    made = []
    for number, offset in enumerate(range(0, len(hello), size)):
        part = hello[offset : offset + size]
        frame = (
            b"\x06" + (offset | 0x4000).to_bytes(2, "big") + (len(part) | 0x4000).to_bytes(2, "big") + part
        )
        made.append(protected(head, number, (b"\x01" + frame).ljust(1162, b"\0"), keys))
    return made[::-1]


QUIC_HELLO = h.client_hello("www.youtube.com", padding=900)[5:]


@pytest.mark.parametrize("version", [V1, V2, 0xFF00001D])
@pytest.mark.parametrize("size", [1100, 500])
def test_the_host_in_quic_names_the_service_whatever_packets_bring_it(size: int, version: int) -> None:
    packets = h.datagrams(quic_packets(QUIC_HELLO, size, version))
    assert verdict("builtin", packets, UDP) == ("QUIC.YouTube", "www.youtube.com")


def test_a_flow_of_quic_is_not_decided_while_its_host_may_still_come() -> None:
    packets = h.datagrams(quic_packets(QUIC_HELLO, 400))
    decided = [is_decided("builtin", packets[:count], UDP) for count in (1, 2, 3)]
    assert decided == [False, False, True]


@NEEDS_NDPI
def test_ndpi_sees_the_same_host_in_quic() -> None:
    packets = h.datagrams(quic_packets(QUIC_HELLO, 1100))
    assert verdict("ndpi", packets, UDP) == verdict("builtin", packets, UDP)


def test_quic_that_cannot_be_opened_is_still_quic() -> None:
    (packet,) = quic_packets(QUIC_HELLO, 1100)
    broken = packet[:40] + bytes(len(packet) - 40)
    unknown = packet[:1] + b"\xff\0\0\x01" + packet[5:]
    for sent in (broken, unknown):
        assert verdict("builtin", h.datagrams([sent]), UDP) == ("QUIC", None)


def test_what_is_only_known_by_its_port_is_told_as_a_guess() -> None:
    found = engine("builtin").judge(
        one_flow([Record(b"\x01\x02")], protocol=TCP, src_port=40000, dst_port=443)
    )
    assert found.of(0).confidence == "Match by port"


def together(flows: list[FirstPackets]) -> FirstPackets:
    names = [name for name in FirstPackets.__slots__ if name not in ("data", "ends")]
    sizes = [0, *(len(flow.data) for flow in flows)]
    return FirstPackets(
        np.concatenate([flow.data for flow in flows]),
        np.cumsum(sizes),
        *(np.concatenate([getattr(flow, name) for flow in flows]) for name in names),
    )


def answers_of(judge: Engine, flows: FirstPackets) -> list[object]:
    found = judge.judge(flows)
    return [(found.of(f), bool(found.is_decided[f]), found.hosts[f]) for f in range(len(flows))]


@BOTH
def test_a_verdict_does_not_depend_on_the_flows_before_it(choice: str) -> None:
    torrent = one_flow(
        h.segments(b"\x13BitTorrent protocol" + bytes(48)), protocol=TCP, src_port=1, dst_port=9
    )
    stun = bytes.fromhex("0001000021 12a442".replace(" ", "")) + bytes(12)
    flows = [torrent] + [
        one_flow(packets, protocol=protocol, src_port=40000, dst_port=port)
        for packets, protocol, port in [
            ([Record(b"\x99" * 80)] * 3, TCP, 9),
            (h.datagrams([stun] * 2), UDP, 3478),
            (h.datagrams([b"\x80" + bytes(30)]), UDP, 3478),
            *((packets, protocol, port) for _, packets, protocol, port in SAID),
        ]
    ]
    judge = engine(choice)  # type: ignore[arg-type]
    alone = [answers_of(judge, flow)[0] for flow in reversed(flows)][::-1]
    assert answers_of(judge, together(flows)) == alone


said_first = [
    *quic_packets(QUIC_HELLO, 500),
    h.client_hello("a.example.org"),
    h.HTTP,
    h.dns_query("a.example.org"),
    h.rtp(3),
]
pieces = st.one_of(
    st.binary(max_size=300),
    st.sampled_from(said_first).flatmap(
        lambda said: st.builds(
            lambda cut, place, byte: (said[:place] + bytes([byte]) + said[place + 1 :])[:cut],
            st.integers(0, len(said)), st.integers(0, len(said) - 1), st.integers(0, 255),
        )
    ),
)  # fmt: skip
any_records = st.lists(
    st.builds(
        Record, pieces, is_reply=st.booleans(), tcp_seq=st.integers(0, 400), tcp_flags=st.integers(0, 255),
        icmp_type=st.integers(0, 255), icmp_code=st.integers(0, 255), tcp_ack=st.integers(0, 2**32 - 1),
        time_us=st.integers(0, 2**50),
    ),
    max_size=6,
)  # fmt: skip


@BOTH
@settings(max_examples=200, deadline=None)
@given(
    packets=any_records,
    protocol=st.sampled_from([6, 17, 1, 58, 132, 47, 0, 255]),
    port=st.sampled_from([53, 80, 443, 123, 500, 5353, 2152, 3478, 9]),
    cut=st.integers(0, 40),
)
def test_any_bytes_get_a_verdict(
    choice: str, packets: list[Record], protocol: int, port: int, cut: int
) -> None:
    flow = one_flow(packets, protocol=protocol, src_port=40000, dst_port=port)
    found = answers_of(engine(choice), flow)  # type: ignore[arg-type]
    assert found == answers_of(engine(choice), flow)  # type: ignore[arg-type]
    # Records that are cut off are not read beyond their end.
    data = np.frombuffer(pack(packets), np.uint8)
    short = FirstPackets(
        data[: max(0, len(data) - cut)],
        np.array([0, max(0, len(data) - cut)]),
        *flow.ends_of_flows,
        flow.is_last,
    )
    assert len(answers_of(engine(choice), short)) == 1  # type: ignore[arg-type]


@NEEDS_NDPI
def test_the_best_engine_is_ndpi_and_its_name_says_so() -> None:
    assert engine().name.startswith("nDPI 5.")
    assert engine("builtin").name == "built-in"


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def change(what: str) -> None:
        if what == "missing":
            monkeypatch.setitem(sys.modules, "_lib_engine", None)
        elif what == "another version":
            monkeypatch.setattr(abi, "NFSTREAM", "6.5.4")
        else:
            monkeypatch.setattr(ndpi, "_QUERY", h.dns_query("www.example.org"))

    return change


@pytest.mark.parametrize(
    "what",
    [
        "missing",
        *(pytest.param(w, marks=NEEDS_NDPI) for w in ("another version", "another answer")),
    ],
)
def test_an_engine_that_changed_is_refused_and_the_built_in_one_takes_over(
    changed: Callable[[str], None], what: str
) -> None:
    changed(what)
    with pytest.raises(NdpiUnusable):
        Ndpi()
    assert _engine("best").name == "built-in"
    with pytest.raises(NdpiUnusable):
        _engine("ndpi")


def agreement(choice: str) -> tuple[float, float]:
    captures = [p.with_name(p.name.removesuffix(".out")) for p in sorted((DATA / "dpi").glob("*.out"))]
    operator = net.Applications(engine=choice, idle="1h", active="24h")  # type: ignore[arg-type]
    found = compare_applications(captures, operator)
    same = f"same {found.ratio:.1%}, same protocol {found.protocol_ratio:.1%}"
    print(f"{choice}: {found.flows} flows, {same}")
    print("\n".join(map(str, found.differences)))
    assert found.flows > 2000
    return found.ratio, found.protocol_ratio


@NEEDS_NDPI
@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
def test_applications_are_those_that_ndpi_itself_finds() -> None:
    same, same_protocol = agreement("ndpi")
    assert same >= 0.95
    assert same_protocol >= 0.98


@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
def test_the_built_in_engine_knows_more_than_half_of_what_ndpi_finds() -> None:
    same, same_protocol = agreement("builtin")
    assert same >= 0.55
    assert same_protocol >= 0.65
