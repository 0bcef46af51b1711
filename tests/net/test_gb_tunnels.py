"""TLLIs of the Gb interface to subscribers and cells, and flows that outlive a TLLI."""

from __future__ import annotations

import datetime as dt

import polars as pl
from tests.net import gprs_making as g
from tests.net import making as m
from tests.net.rows import told

from penstock import net
from penstock.testing.operators import check_operator

PHONE, SERVER, BSS, SGSN = "10.192.0.1", "172.16.1.10", "1.2.3.4", "5.6.7.8"
OLD, NEW = 0xC0DEAD01, 0xC0DEAD02
IMSI = "12131415161718"
START = dt.datetime(2023, 11, 14, 22, 13, 20)


def frame(tlli: int, *, is_up: bool = True) -> bytes:
    """A datagram of a phone, or to it."""
    ends = {"src": PHONE, "dst": SERVER} if is_up else {"src": SERVER, "dst": PHONE}
    ports = {"src": 4000, "dst": 53} if is_up else {"src": 53, "dst": 4000}
    unit = g.gb_unit(g.sndcp(m.ipv4(m.udp(b"hello", **ports), **ends)), is_up=is_up, tlli=tlli)
    if is_up:
        return g.gb_sent(unit)
    return m.ethernet(m.ipv4(m.udp(unit, src=23000, dst=1111), src=SGSN, dst=BSS))


def sightings(packets: list[bytes]) -> pl.DataFrame:
    return net.gb_sightings(g.rows_of(packets))


def changes(packets: list[bytes], **options: str) -> list[tuple[object, ...]]:
    found = told(net.GbTunnels(**options), sightings(packets))["out"]
    ends = net.ip_text(found["outer_dst_ip_high"], found["outer_dst_ip_low"])
    rows = found.with_columns(end=ends, second=(pl.col("time") - START).dt.total_seconds())
    return rows.select("second", "end", "tunnel_id", "imsi", "cell", "is_valid").rows()


def test_what_one_way_tells_holds_for_both() -> None:
    assert changes([frame(OLD), frame(OLD), frame(OLD, is_up=False), frame(OLD)]) == [
        (0, BSS, OLD, None, 0x1234, True),
        (0, SGSN, OLD, None, 0x1234, True),
        (2, BSS, OLD, told_imsi(), 0x1234, True),
        (2, SGSN, OLD, told_imsi(), 0x1234, True),
    ]


def told_imsi() -> str:
    (imsi,) = net.gb_frames(g.rows_of([frame(OLD, is_up=False)]))["imsi"].to_list()
    assert isinstance(imsi, str)
    return imsi


def test_a_tlli_that_is_silent_for_long_is_over() -> None:
    filler = m.ethernet(m.ipv4(m.udp(b"")))
    rows = sightings([frame(OLD), *[filler] * 9, frame(NEW)])
    times: list[dt.datetime | None] = [START + dt.timedelta(seconds=8)]
    found = told(net.GbTunnels(forget="5s"), rows, cuts=[1], punctuations=times)["out"]
    assert found.filter(~pl.col("is_valid"))["tunnel_id"].to_list() == [OLD, OLD]


def test_gb_tunnels_keep_to_the_contract_of_operators() -> None:
    rows = sightings([frame(OLD), frame(OLD, is_up=False), frame(NEW), frame(OLD), frame(NEW, is_up=False)])
    times = [START + dt.timedelta(seconds=s) for s in (1, 3)]
    check_operator(net.GbTunnels, [rows[:2], rows[2:3], rows[3:]], times=times)


def test_a_flow_goes_on_when_the_tlli_changes() -> None:
    packets = g.rows_of([frame(OLD), frame(OLD, is_up=False), frame(NEW), frame(NEW, is_up=False)])
    keys = net.flow_key(packets).select(net.FLOW_KEY)
    assert keys.n_unique() == 1
    carried = net.application_key(packets)
    assert carried["carrier_id"].to_list() == [OLD, OLD, NEW, NEW]
