"""Flows with their applications: the same verdict however the input is cut, and every packet in one share."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.net import hellos as h
from tests.net import making as m
from tests.net.answers import DATA, MISSING
from tests.net.gprs_making import rows_of
from tests.net.test_dpi import BOTH, NEEDS_NDPI

import penstock as ps
from penstock import net
from penstock.errors import InternalError, SourceUnavailable
from penstock.net import _flow_kernels
from penstock.net._deadlines import Deadlines
from penstock.net.columns import DEFAULT, IN_FILE
from penstock.net.decoding import decode_block
from penstock.net.opening import opened
from penstock.testing import run
from penstock.testing.operators import check_operator

CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
START_US = 1_700_000_000 * 10**6
HELLO = h.client_hello("m.facebook.com", padding=200)


def datagram(payload: bytes, src: int, dst: int, *, is_reply: bool = False) -> bytes:
    ends = {"src": SERVER, "dst": CLIENT} if is_reply else {"src": CLIENT, "dst": SERVER}
    return m.ethernet(m.ipv4(m.udp(payload, src=src, dst=dst), **ends))


def segment(payload: bytes, seq: int, port: int = 5001, flags: int = 24) -> bytes:
    made = bytearray(m.tcp(payload, src=port, dst=443, flags=flags))
    made[4:8] = seq.to_bytes(4, "big")
    return m.ethernet(m.ipv4(bytes(made), protocol=6, src=CLIENT, dst=SERVER))


def mixed() -> list[bytes]:
    """Four flows whose packets come between each other; one is split, one is silence, one pauses."""
    query = h.dns_query("www.netflix.com")
    return [
        segment(b"", 99, flags=2),
        datagram(query, 5000, 53),
        segment(HELLO[:80], 100),
        *(datagram(h.rtp(n), 6000, 7000) for n in range(3)),
        segment(HELLO[80:200], 180),
        datagram(bytes(range(70, 110)), 8123, 47123),
        segment(HELLO[200:], 300),
        *(datagram(h.rtp(n), 6000, 7000) for n in range(3, 6)),
        *(segment(b"\x17\x03\x03\0\x05abcde", 600 + 10 * n) for n in range(14)),
        datagram(query, 5000, 53),
        datagram(bytes(range(70, 110)), 8123, 47123),
    ]


def decoded(path: Path) -> pl.DataFrame:
    with opened(str(path)) as (walk, _):
        return pl.concat([decode_block(block, (*DEFAULT, "packet")) for block in walk.blocks() if len(block)])


@pytest.fixture
def packets(tmp_path: Path) -> pl.DataFrame:
    (tmp_path / "a.pcap").write_bytes(m.pcap(mixed()))
    return net.application_key(decoded(tmp_path / "a.pcap"))


class Kept:
    """Keeps what an operator emits."""

    def __init__(self, *, with_tunnels: bool = False) -> None:
        self.rows: dict[str, list[pl.DataFrame]] = {"out": [], "shares": []}
        self._columns = {"outer_dst_ip_high": int} if with_tunnels else {}

    def __call__(self, rows: pl.DataFrame) -> None:
        self.rows["out"].append(rows)

    def to(self, output: str, rows: pl.DataFrame) -> None:
        self.rows[output].append(rows)

    def columns(self, output: str = "out") -> Any:
        from penstock.topology.schema import Schema

        return Schema.of(self._columns)

    def flows(self) -> pl.DataFrame:
        return pl.concat(self.rows["out"]).sort("first_time", "src_port")

    def shares(self, *by: str) -> pl.DataFrame:
        return (
            pl.concat(self.rows["shares"])
            .group_by("application", *by)
            .agg(pl.sum("packets", "bytes", "flows"))
            .sort("application", *by)
        )


def moved(operator: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The state as another process gets it."""
    other: dict[str, Any] = operator.init_state()
    for name, part in state.items():
        other[name].apply(part.export_base())
    return other


def judged(operator: Any, parts: list[pl.DataFrame]) -> Kept:
    """All flows of these batches, with the state moved between them."""
    state, kept = operator.init_state(), Kept(with_tunnels="carrier_id" in parts[0].columns)
    for part in parts:
        operator.process(part, state, kept)
        state = moved(operator, state)
    operator.on_punctuation(dt.datetime.max, state, kept)
    assert not any(len(state[name]) for name in ("flows", "packets", "hosts"))
    return kept


@BOTH
def test_the_flows_of_a_mixture_are_told_apart(packets: pl.DataFrame, choice: Any) -> None:
    flows = judged(net.Applications(engine=choice), [packets]).flows()
    assert flows["src_port"].to_list() == [5001, 5000, 6000, 8123]
    assert flows["application"].to_list() == ["TLS.Facebook", "DNS.NetFlix", "RTP", "Unknown"]
    assert flows["host"].to_list() == ["m.facebook.com", "www.netflix.com", None, None]
    assert flows["src2dst_packets"].to_list() == [18, 2, 6, 2]


@BOTH
def test_the_verdict_is_the_same_wherever_the_state_is_moved(packets: pl.DataFrame, choice: Any) -> None:
    operator = net.Applications(engine=choice)
    whole = judged(operator, [packets])
    for cut in range(1, packets.height):
        found = judged(operator, [packets[:cut], packets[cut:]])
        assert found.flows().equals(whole.flows()), cut
        assert found.shares().equals(whole.shares()), cut
    one_by_one = judged(operator, [packets[i : i + 1] for i in range(packets.height)])
    assert one_by_one.flows().equals(whole.flows())
    assert one_by_one.shares().equals(whole.shares())


@NEEDS_NDPI
@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
@pytest.mark.parametrize(
    "name", ["KakaoTalk_talk.pcap", "443-firefox.pcap", "bittorrent_utp.pcap", "dns.pcap", "ftp_failed.pcap"]
)
def test_real_flows_get_the_same_verdict_in_any_epochs(name: str) -> None:
    packets = net.application_key(decoded(DATA / "dpi" / name))
    operator = net.Applications(engine="ndpi")
    whole = judged(operator, [packets])
    for size in (1, 7, 50) if packets.height < 500 else (7, 50):
        found = judged(operator, [packets[i : i + size] for i in range(0, packets.height, size)])
        assert found.flows().equals(whole.flows()), size
        assert found.shares().equals(whole.shares()), size


@pytest.mark.parametrize("idle", ["3s", "120s"])
def test_applications_keep_to_the_contract_of_operators(packets: pl.DataFrame, idle: str) -> None:
    epochs = [packets[:5], packets[5:9], packets[9:20], packets[20:]]
    start = packets["time"][0]
    times = [start + dt.timedelta(seconds=s) for s in (2, 6, 12, 20)]
    check_operator(lambda: net.Applications(engine="builtin", idle=idle), epochs, times=times)
    check_operator(lambda: net.Flows(idle=idle), [epoch.drop("payload") for epoch in epochs], times=times)


def test_each_packet_is_in_the_share_of_its_flows_final_application(packets: pl.DataFrame) -> None:
    kept = judged(net.Applications(engine="builtin", idle="4s"), [packets[:9], packets[9:]])
    flows = kept.flows().group_by("application").agg(
        packets=pl.sum("src2dst_packets") + pl.sum("dst2src_packets"),
        bytes=pl.sum("src2dst_bytes") + pl.sum("dst2src_bytes"),
        flows=pl.len().cast(pl.Int64),
    ).sort("application")  # fmt: skip
    assert kept.shares().equals(flows)
    assert flows["packets"].sum() == packets.height
    assert kept.flows().filter(pl.col("application") == "DNS.NetFlix").height == 2  # cut by the pause


def test_with_tunnels_each_flow_says_which_carried_its_first_packet() -> None:
    query, teids = h.dns_query("www.netflix.com"), (7, 8, 9)
    inner = [
        m.ipv4(m.udp(query, src=5000, dst=53), src=CLIENT, dst=SERVER),
        m.ipv4(m.udp(query, src=53, dst=5000), src=SERVER, dst=CLIENT),
    ]
    made = [
        m.ethernet(m.ipv4(m.udp(m.gtp(inner[i % 2], teid), src=2152, dst=2152), dst=f"10.9.0.{1 + i % 2}"))
        for i, teid in enumerate((7, 8, 9, 8, 7))
    ]
    packets = net.application_key(rows_of([*made, datagram(query, 4000, 53)]))
    operator, first = net.Applications(engine="builtin", idle="2500ms"), START_US
    for parts in ([packets], [packets[i : i + 1] for i in range(packets.height)]):
        kept = judged(operator, parts)
        flows, shares = kept.flows(), pl.concat(kept.rows["shares"])
        (carried,) = flows.filter(pl.col("src_port") == 5000).iter_rows(named=True)
        assert carried["tunnel_id"] == teids[0]
        assert net.ip_text(flows["outer_dst_ip_high"], flows["outer_dst_ip_low"])[0] == "10.9.0.1"
        assert int(carried["time"].replace(tzinfo=dt.UTC).timestamp() * 1e6) == first
        assert flows.filter(pl.col("src_port") == 4000)["time"].to_list() == [None]
        sums = shares.group_by("tunnel_id").agg(pl.sum("packets", "flows")).sort("tunnel_id")
        assert sums.rows() == [(0, 1, 1), (7, 5, 1)]


def test_decided_flows_keep_no_packets_and_undecided_ones_only_their_first(packets: pl.DataFrame) -> None:
    operator, kept = net.Applications(engine="builtin", packets=3, bytes_kept=100), Kept()
    state = operator.init_state()
    silence = packets.filter(pl.col("a_port") == 8123)
    operator.process(pl.concat([packets.filter(pl.col("a_port") == 5000), silence[:1]]), state, kept)
    assert len(state["packets"]) == 1
    operator.process(pl.concat([silence] * 5), state, kept)
    assert len(state["packets"]) == 0
    assert state["flows"].frame().filter(pl.col("kept_bytes") > 100).height == 0


def test_a_change_to_fewer_kept_bytes_lets_go_of_flows_that_have_more() -> None:
    # Flows of unknown protocols, each with 600 bytes in the state when the bound becomes 100.
    packets = [datagram(bytes([n]) * 300, 40_000 + n, 40_100) for _ in range(3) for n in range(20)]
    rows = net.application_key(rows_of(packets))
    before = net.Applications(engine="builtin", bytes_kept=1000)
    after = net.Applications(engine="builtin", bytes_kept=100)
    state, kept = before.init_state(), Kept()
    before.process(rows[:40], state, kept)
    after.process(rows[40:], state, kept)
    assert len(state["packets"]) == 0
    after.on_punctuation(dt.datetime.max, state, kept)
    flows = kept.flows()
    assert flows["src2dst_packets"].to_list() == [3] * 20


def test_payloads_shorter_than_their_packets_say_are_refused() -> None:
    rows = net.application_key(rows_of([datagram(bytes(300), 1, 2)]))
    operator = net.Applications(engine="builtin")
    with pytest.raises(InternalError):
        operator.process(
            rows.with_columns(payload_size=pl.lit(5000, pl.UInt32)), operator.init_state(), Kept()
        )


def test_a_topology_gives_flows_and_shares(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(m.pcap(mixed()))
    top = ps.Topology("apps")
    source = top.source("packets", net.Pcap(tmp_path, columns=(*DEFAULT, "packet"), ends="drained"))
    apps = source.map("key", net.application_key).key_by(*net.FLOW_KEY)
    judged = apps.process("apps", net.Applications(engine="builtin"))
    judged.sink("flows", ps.Collect())
    judged.output("shares").sink("shares", ps.Collect())
    found = run(top, rows_per_epoch=4)
    assert sorted(found["flows"]["application"]) == ["DNS.NetFlix", "RTP", "TLS.Facebook", "Unknown"]
    assert found["shares"]["packets"].sum() == len(mixed())


def test_flows_that_share_a_fingerprint_stay_apart(
    packets: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = judged(net.Applications(engine="builtin"), [packets]).flows()
    real = _flow_kernels.fingerprint

    def same(*columns: Any) -> None:
        real(*columns)
        columns[-2][:] = 5

    monkeypatch.setattr(_flow_kernels, "fingerprint", same)
    for parts in ([packets], [packets[:7], packets[7:]]):
        assert judged(net.Applications(engine="builtin"), parts).flows().equals(alone)


kinds = st.sampled_from(["packet", "packet", "packet", "time", "move", "save"])
events = st.lists(st.tuples(kinds, st.integers(0, 5), st.integers(0, 9)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(events=events)
def test_flows_expire_as_if_the_whole_table_were_looked_through(events: list[tuple[str, int, int]]) -> None:
    idle = 10
    operator, kept = net.Flows(idle=dt.timedelta(microseconds=idle), active="1h"), Kept()
    state, now, last, expected = operator.init_state(), 0, {}, []
    copy = moved(operator, state)
    for what, flow, step in events:
        now += step
        if what == "packet":
            if flow in last and now - last[flow] > idle:
                expected.append((flow, last[flow]))
            last[flow] = now
            operator.process(packet(flow, now), state, kept)
        elif what == "time":
            over = {f: t for f, t in last.items() if t + idle < now}
            expected += over.items()
            last = {f: t for f, t in last.items() if f not in over}
            operator.on_punctuation(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=now), state, kept)
        elif what == "move":
            state, copy = moved(operator, state), state
        else:  # a copy that lags behind catches up, and goes on in the place of the first
            for name, part in state.items():
                if part.is_changed:
                    copy[name].apply(part.export_delta())
            state, copy = copy, state
    found = [
        (port, time)
        for rows in kept.rows["out"]
        for port, time in rows.select("src_port", pl.col("last_time").to_physical()).iter_rows()
    ]
    assert sorted(found) == sorted(expected)
    assert len(state["flows"]) == len(last)


def packet(flow: int, time_us: int) -> pl.DataFrame:
    key = dict.fromkeys(net.FLOW_KEY, 0) | {"a_port": flow}
    kinds = {
        "ip_high": pl.UInt64,
        "ip_low": pl.UInt64,
        "port": pl.UInt16,
        "vlan": pl.UInt16,
        "protocol": pl.UInt8,
        "tunnel_id": pl.UInt32,
    }
    columns = [
        pl.Series(name, [value], dtype=kinds.get(name[2:], kinds.get(name))) for name, value in key.items()
    ]
    time = pl.Series("time", [time_us]).cast(pl.Datetime("us"))
    more = {"length": pl.UInt32, "tcp_flags": pl.UInt8}
    rest = [pl.Series(name, [1], dtype=kind) for name, kind in more.items()]
    return pl.DataFrame([*columns, time, *rest, pl.Series("forward", [True])])


def test_a_punctuation_looks_only_at_what_may_be_over() -> None:
    wheel = Deadlines(span_us=64_000)
    rows = np.arange(100_000)
    wheel.enter(rows, 1_000_000 + rows)
    assert len(wheel.due(1_000_000)) == 0
    due = wheel.due(1_000_500)
    assert 500 <= len(due) <= 1_500
    assert (due == np.arange(len(due))).all()
    assert len(wheel.due(None)) == 100_000 - len(due)


def with_places(path: Path) -> pl.DataFrame:
    """The packets of a plain file, with the places where they lie in it."""
    columns = (*DEFAULT, "packet", *IN_FILE)
    with opened(str(path)) as (walk, _):
        parts = [decode_block(b, columns, file=str(path)) for b in walk.blocks() if len(b)]
    return pl.concat(parts)


def test_payloads_that_stay_in_their_capture_make_no_difference(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    half = len(mixed()) // 2
    first.write_bytes(m.pcap(mixed()[:half]))
    second.write_bytes(m.pcap(mixed()[half:]))
    whole = pl.concat([with_places(first), with_places(second)])
    carried = net.application_key(whole.drop(*IN_FILE))
    left = net.application_key(whole)
    assert left["payload"].null_count() == left.height
    # Some came without a file, as packets do that were put together from fragments.
    is_odd = pl.int_range(pl.len()) % 3 == 0
    some = whole.with_columns(capture_file=pl.when(~is_odd).then("capture_file"))
    expected = builtin_flows(carried)
    assert builtin_flows(left) == expected
    assert builtin_flows(net.application_key(some)) == expected


def builtin_flows(packets: pl.DataFrame) -> list[dict[str, Any]]:
    return judged(net.Applications(engine="builtin"), [packets]).flows().to_dicts()


def test_a_packet_cut_in_its_headers_at_the_end_of_a_file_has_no_payload(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(m.pcap([datagram(b"abcdefgh", 6000, 7000), segment(b"late", 99, flags=2)], snap=50))
    packets = net.application_key(with_places(path))
    assert packets["payload_size"].to_list() == [8, 0]
    assert len(builtin_flows(packets)) == 2


def test_a_capture_that_is_gone_or_cut_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(m.pcap(mixed()))
    packets = net.application_key(with_places(path))
    with path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(SourceUnavailable, match=r"cut to 100 bytes while it was read at .*a\.pcap"):
        builtin_flows(packets)
    path.unlink()
    with pytest.raises(SourceUnavailable, match=r"cannot be read .* put the file back and run again"):
        builtin_flows(packets)
