"""Tunnels to subscribers: requests paired with responses, and packets with what held at their time."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.net import gprs_making as g
from tests.net import making as m
from tests.net.answers import DATA, MISSING
from tests.net.test_gtp_control import text

import penstock as ps
from penstock import net
from penstock.net import synth
from penstock.testing import run
from penstock.testing.operators import check_operator

START = dt.datetime(2023, 11, 14, 22, 13, 20)
ANN, BOB = "262010000000001", "262010000000002"
MME, SGW, ENB, ENB2, PGW = "10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2", "10.0.0.9"
SGSN, GGSN, SGSN2 = "10.2.0.1", "10.2.0.2", "10.2.0.3"
Row = tuple[int, str, int, str | None, int | None, int | None, bool]


def identity(imsi: str) -> bytes:
    return g.tlv_2(1, g.bcd(imsi, 8)) + g.tlv_2(76, g.bcd("49170" + imsi[-3:]))


def attach(
    imsi: str = ANN, sequence: int = 1, *, mme: int = 70, sgw: int = 80, user: int = 100
) -> list[bytes]:
    """A session on S11 with its first bearer."""
    asked = (
        identity(imsi) + g.location_2(7, 9) + g.f_teid(10, mme, MME) + g.tlv_2(71, b"\x03web") + g.bearer(5)
    )
    given = g.ACCEPTED_2 + g.f_teid(11, sgw, SGW) + g.bearer(5, g.f_teid(1, user, SGW))
    return [
        g.sent(g.v2(32, 0, sequence, asked), MME, SGW),
        g.sent(g.v2(33, mme, sequence, given), SGW, MME),
    ]


def exchange(kind: int, sequence: int, asked: bytes, given: bytes = g.ACCEPTED_2) -> list[bytes]:
    """A request of the MME in the session of `attach`, and its response."""
    return [
        g.sent(g.v2(kind, 80, sequence, asked), MME, SGW),
        g.sent(g.v2(kind + 1, 70, sequence, given), SGW, MME),
    ]


def handover(sequence: int, teid: int, enb: str = ENB, *, area: int = 7, cell: int = 9) -> list[bytes]:
    return exchange(34, sequence, g.location_2(area, cell) + g.bearer(5, g.f_teid(0, teid, enb)))


def control(packets: list[bytes]) -> pl.DataFrame:
    """The messages, a second between each and the next."""
    return net.control_messages(g.rows_of(packets))


def tunnels(packets: list[bytes], **options: str) -> list[Row]:
    return told(check_operator(lambda: net.GtpTunnels(**options), [control(packets)], processes=1)["out"])


def told(found: pl.DataFrame) -> list[Row]:
    return [
        ((row["time"] - START).seconds, text(row["outer_dst_ip_high"], row["outer_dst_ip_low"]),
         row["tunnel_id"], row["imsi"], row["area"], row["cell"], row["is_valid"])
        for row in found.iter_rows(named=True)
    ]  # fmt: skip


def test_an_attach_a_handover_and_a_detach_begin_move_and_end_tunnels() -> None:
    packets = attach() + handover(2, 200) + handover(3, 300, ENB2, area=8, cell=11)
    packets += exchange(36, 4, g.tlv_2(73, b"\x05"))
    assert tunnels(packets) == [
        (1, SGW, 100, ANN, 7, 9, True),
        (3, ENB, 200, ANN, 7, 9, True),
        (5, ENB, 200, ANN, 8, 11, False),
        (5, SGW, 100, ANN, 8, 11, True),
        (5, ENB2, 300, ANN, 8, 11, True),
        (7, SGW, 100, ANN, 8, 11, False),
        (7, ENB2, 300, ANN, 8, 11, False),
    ]


def test_a_release_ends_only_the_way_to_the_radio_network() -> None:
    found = tunnels(attach() + handover(2, 200) + exchange(170, 3, b""))
    assert found[2:] == [(5, ENB, 200, ANN, 7, 9, False)]


def test_each_connection_and_each_bearer_ends_alone() -> None:
    second = identity(ANN) + g.f_teid(10, 70, MME) + g.tlv_2(71, b"\x03ims") + g.bearer(6)
    packets = attach() + exchange(32, 2, second, g.ACCEPTED_2 + g.bearer(6, g.f_teid(1, 101, SGW)))
    # A bearer for the first connection, asked for by the gateway; its number comes with the response.
    asked = g.tlv_2(73, b"\x05") + g.bearer(0, g.f_teid(1, 102, SGW))
    given = g.ACCEPTED_2 + g.bearer(7, g.f_teid(0, 400, ENB), g.f_teid(1, 102, SGW))
    packets += [g.sent(g.v2(95, 70, 9, asked), SGW, MME), g.sent(g.v2(96, 80, 9, given), MME, SGW)]
    begun = [(SGW, 100), (SGW, 101), (SGW, 102), (ENB, 400)]
    assert [row[1:3] for row in tunnels(packets)] == begun
    only_one = packets + exchange(36, 3, g.tlv_2(73, b"\x06"))
    assert [row[1:3] for row in tunnels(only_one) if not row[-1]] == [(SGW, 101)]
    only_bearer = [
        *packets,
        g.sent(g.v2(99, 70, 10, g.tlv_2(73, b"\x07", 1)), SGW, MME),
        g.sent(g.v2(100, 80, 10, g.ACCEPTED_2), MME, SGW),
    ]
    assert [row[1:3] for row in tunnels(only_bearer) if not row[-1]] == [(SGW, 102), (ENB, 400)]
    connection = packets + exchange(36, 3, g.tlv_2(73, b"\x05"))
    assert [row[1:3] for row in tunnels(connection) if not row[-1]] == [(SGW, 100), (SGW, 102), (ENB, 400)]


def context(kind: int, teid: int, sequence: int, elements: bytes, src: str, dst: str) -> bytes:
    return g.sent(g.v1(kind, teid, sequence, elements), src, dst)


def ends_1(user: int, control: int, *addresses: str) -> bytes:
    head = b"\x10" + user.to_bytes(4, "big") + b"\x11" + control.to_bytes(4, "big") + b"\x14\x05"
    return head + b"".join(g.tlv_1(133, g.ip(address)) for address in addresses)


def first_context() -> list[bytes]:
    asked = b"\x02" + g.bcd(ANN, 8) + b"\x03" + bytes.fromhex("62f2200102ff") + ends_1(5, 6, SGSN, SGSN)
    return [
        context(16, 0, 1, asked, SGSN, GGSN),
        context(17, 6, 1, b"\x01\x80" + ends_1(15, 16, GGSN, GGSN), GGSN, SGSN),
    ]


def test_a_context_of_version_1_follows_its_subscriber_to_another_node() -> None:
    area = b"\x03" + bytes.fromhex("62f2200304ff")
    packets = first_context()
    packets += [
        context(18, 16, 7, area + ends_1(25, 26, SGSN2, SGSN2), SGSN2, GGSN),
        context(19, 26, 7, b"\x01\x80" + ends_1(15, 16, GGSN, GGSN), GGSN, SGSN2),
        context(20, 26, 8, b"\x13\xff\x14\x05", GGSN, SGSN2),
        context(21, 16, 8, b"\x01\x80", SGSN2, GGSN),
    ]
    assert tunnels(packets) == [
        (1, SGSN, 5, ANN, 0x0102, None, True),
        (1, GGSN, 15, ANN, 0x0102, None, True),
        (3, SGSN, 5, ANN, 0x0304, None, False),
        (3, GGSN, 15, ANN, 0x0304, None, True),
        (3, SGSN2, 25, ANN, 0x0304, None, True),
        (5, GGSN, 15, ANN, 0x0304, None, False),
        (5, SGSN2, 25, ANN, 0x0304, None, False),
    ]


def test_a_second_context_ends_alone_unless_all_are_torn_down() -> None:
    second = ends_1(35, 6, SGSN, SGSN).replace(b"\x14\x05", b"\x14\x06\x14\x05")
    packets = [
        *first_context(),
        context(16, 16, 2, second, SGSN, GGSN),
        context(17, 6, 2, b"\x01\x80" + ends_1(45, 16, GGSN, GGSN).replace(b"\x14\x05", b""), GGSN, SGSN),
    ]
    for flags, over in ((b"", [35, 45]), (b"\x13\xff", [5, 15, 35, 45])):
        end = [
            context(20, 16, 3, flags + b"\x14\x06", SGSN, GGSN),
            context(21, 6, 3, b"\x01\x80", GGSN, SGSN),
        ]
        assert [row[2] for row in tunnels(packets + end) if not row[-1]] == over


def unused(packets: list[bytes], **options: str) -> list[tuple[str, str]]:
    found = check_operator(lambda: net.GtpTunnels(**options), [control(packets)], processes=1)
    assert found["out"].is_empty()
    return found["unused"].select("kind", "why").rows()


def test_what_changes_nothing_is_told() -> None:
    request, response = attach()
    rejected = g.sent(g.v2(33, 70, 1, g.REJECTED_2), SGW, MME)
    assert unused([request, rejected]) == [("create request", "rejected")]
    assert unused([request, request]) == [("create request", "not answered")]
    late = [request, *[m.ethernet(m.ipv4(m.udp(b"")))] * 5, response]
    assert unused(late, wait="5s") == [("create request", "not answered")]
    assert unused(handover(2, 200)) == [("modify request", "unknown session")]


def test_a_response_that_comes_too_late_finds_no_request() -> None:
    request, response = attach()
    epochs = [control([request]), control([*[m.ethernet(m.ipv4(m.udp(b"")))] * 9, response])]
    times = [START + dt.timedelta(seconds=8)]
    found = check_operator(lambda: net.GtpTunnels(wait="3s"), epochs, times=times, processes=1)
    assert found["out"].is_empty()
    assert found["unused"]["why"].to_list() == ["not answered"]


def test_a_response_just_in_time_counts() -> None:
    request, response = attach()
    packets = [request, *[m.ethernet(m.ipv4(m.udp(b"")))] * 4, response]
    assert len(tunnels(packets, wait="5001ms")) == 1


def test_repeated_messages_count_once() -> None:
    request, response = attach()
    assert len(tunnels([request, request, response, response])) == 1


def test_a_number_that_is_given_out_again_belongs_to_the_new_subscriber() -> None:
    packets = attach() + attach(BOB, 2, mme=71, sgw=81, user=100) + exchange(36, 3, g.tlv_2(73, b"\x05"))
    assert [(row[3], row[-1]) for row in tunnels(packets)] == [(ANN, True), (BOB, True)]
    packets = attach() + attach(BOB, 2, user=101)
    assert [(row[2], row[3], row[-1]) for row in tunnels(packets)] == [
        (100, ANN, True), (100, ANN, False), (101, BOB, True),
    ]  # fmt: skip


def story() -> list[bytes]:
    """Two subscribers that come, move and go."""
    packets = attach() + attach(BOB, 2, mme=71, sgw=81, user=101) + handover(3, 200)
    packets += (
        handover(4, 300, ENB2, area=8, cell=11) + exchange(36, 5, g.tlv_2(73, b"\x05")) + attach(sequence=6)
    )
    return packets + first_context()


def test_tunnels_keep_to_the_contract_of_operators() -> None:
    rows = control(story())
    epochs = [rows[:3], rows[3:4], rows[4:9], rows[9:]]
    at = [START + dt.timedelta(seconds=second) for second in (2, 4, 7)]
    out = check_operator(net.GtpTunnels, epochs, times=at)["out"]
    assert told(out) == tunnels(story())
    check_operator(net.GtpTunnels, epochs, same_for="epochs", processes=1)


def user_packet(teid: int, dst: str) -> bytes:
    return m.ethernet(
        m.ipv4(m.udp(m.gtp(m.ipv4(m.udp(b"hi")), teid), src=2152, dst=2152), src="10.9.9.9", dst=dst)
    )


def subscribers(top: ps.Topology, path: Path) -> None:
    packets = top.source("packets", net.Pcap(path, columns=g.ALL, ends="drained"))
    messages = packets.flat_map("control", net.control_messages)
    found = messages.to_one().process("tunnels", net.GtpTunnels())
    users = packets.filter("users", pl.col("tunnel") == net.TUNNELS.index("gtp-u")).key_by(*net.TUNNEL_KEY)
    also = {"tunnels": found.key_by(*net.TUNNEL_KEY)}
    users.process("subscribers", net.Subscribers(), also=also).sink("out", ps.Collect())


def users_of(path: Path, rows_per_epoch: int | None = None) -> pl.DataFrame:
    top = ps.Topology("subscribers")
    subscribers(top, path)
    found = run(top, rows_per_epoch=rows_per_epoch) if rows_per_epoch else run(top)
    return found["out"].sort("time", *net.TUNNEL_KEY)


@pytest.mark.parametrize("rows_per_epoch", [None, 1, 2, 5])
def test_a_packet_gets_what_held_at_its_time_however_epochs_are_cut(
    tmp_path: Path, rows_per_epoch: int | None
) -> None:
    up, down = user_packet(100, SGW), user_packet(200, ENB)
    packets = [up, *attach(), up, down, *handover(2, 200), up, down]
    packets += [
        *handover(3, 300, ENB2, area=8, cell=11),
        up,
        down,
        *exchange(36, 4, g.tlv_2(73, b"\x05")),
        up,
    ]
    (tmp_path / "a.pcap").write_bytes(m.pcap(packets))
    found = users_of(tmp_path, rows_per_epoch)
    assert found.select("tunnel_id", "imsi", "msisdn", "mcc", "mnc", "area", "cell").rows() == [
        (100, None, None, None, None, None, None),
        (100, ANN, "49170001", "262", "02", 7, 9),
        (200, None, None, None, None, None, None),
        (100, ANN, "49170001", "262", "02", 7, 9),
        (200, ANN, "49170001", "262", "02", 7, 9),
        (100, ANN, "49170001", "262", "02", 8, 11),
        (200, None, None, None, None, None, None),
        (100, None, None, None, None, None, None),
    ]


def test_subscribers_keep_to_the_contract_of_operators() -> None:
    places = [(100, SGW), (101, SGW), (200, ENB), (300, ENB2), (15, GGSN), (1, SGW)]
    packets = g.rows_of([user_packet(*places[k % 6]) for k in range(18)]).drop("packet")
    found = check_operator(net.GtpTunnels, [control(story())], processes=1)["out"]
    epochs: list[dict[str, Any]] = [
        {"in": packets[:4], "tunnels": found[:2]},
        {"in": packets[4:9], "tunnels": found[2:6]},
        {"tunnels": found[6:]},
        {"in": packets[9:]},
    ]
    at = [START + dt.timedelta(seconds=second) for second in (2, 6, 8)]
    out = check_operator(net.Subscribers, epochs, times=at)["out"]
    assert out.height == packets.height
    assert set(out["imsi"]) == {None, ANN, BOB}


def test_packets_without_a_time_and_late_ones_are_not_lost() -> None:
    packets = g.rows_of([user_packet(100, SGW)] * 4).drop("packet")
    untimed = packets.with_columns(pl.when(pl.col("time") > START).then("time").alias("time"))
    found = check_operator(net.GtpTunnels, [control(attach())], processes=1)["out"]
    epochs = [{"in": untimed[2:], "tunnels": found}, {"in": untimed[:2]}]
    out = check_operator(net.Subscribers, epochs, times=[START + dt.timedelta(seconds=9)], processes=1)["out"]
    assert out["imsi"].to_list() == [ANN] * 4


def test_rows_that_come_late_get_what_held_at_their_time() -> None:
    packets = g.rows_of([m.ethernet(m.ipv4(m.udp(b""))), *[user_packet(100, SGW)] * 8]).drop("packet")[2:]
    bye = exchange(36, 2, g.tlv_2(73, b"\x05"))
    messages = [*attach(), *[m.ethernet(m.ipv4(m.udp(b"")))] * 3, *bye]
    found = check_operator(net.GtpTunnels, [control(messages)], processes=1)["out"]
    assert found["is_valid"].to_list() == [True, False]
    epochs: list[Any] = [{"tunnels": found}, {"in": packets}]
    times = [START + dt.timedelta(seconds=20), START + dt.timedelta(seconds=30)]
    for late, owners in (("60s", [ANN] * 4 + [None] * 3), ("0s", [None] * 7)):
        make = partial(net.Subscribers, late=late)
        assert check_operator(make, epochs, times=times, processes=1)["out"]["imsi"].to_list() == owners


@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
@pytest.mark.parametrize("name", ["inbound_roaming_01_210505_130828-1", "inbound_roaming_05_210504_215514-1"])
def test_packets_of_a_real_roaming_subscriber_have_an_owner(name: str) -> None:
    found = users_of(DATA / "gtp" / "magma" / f"{name}.pcapng", 20)
    # The other two ends, towards the radio network, were agreed on in S1AP, not in GTP.
    owned = found.filter(pl.col("imsi") == "001020000000064")
    assert (found.height, owned.height) == (40, 20)
    ends = zip(owned["outer_dst_ip_high"], owned["outer_dst_ip_low"], strict=True)
    assert {text(*end) for end in ends} == {"172.16.20.4", "172.16.20.150"}
    assert owned["location"].unique().to_list() == ["ecgi"]


def test_packets_of_each_subscriber_and_cell_are_those_that_were_made(tmp_path: Path) -> None:
    traffic = synth.Traffic(
        subscribers=60, cells=8, rate=1500, duration="5s", tunnel="gtp", stay="2s", seed=3
    )
    truth = synth.write(tmp_path / "a.pcap", traffic)
    found = users_of(tmp_path / "a.pcap", 4000)
    for by, made in (("imsi", truth.subscribers), ("cell", truth.cells)):
        ours = found.group_by(by).agg(pl.len(), pl.sum("length"))
        assert sorted(ours.rows()) == sorted(made.select(by, "packets", "bytes").rows())
