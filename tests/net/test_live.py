"""Live capture on loopback, with real packets. Needs the right to capture."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.net import making as m

from penstock.connect.source import BadRecord, Limit
from penstock.errors import BadArgument, SourceUnavailable
from penstock.net import Interface
from penstock.net._ring import BLOCK_BYTES, take_block
from penstock.net.interface_planner import InterfacePlanner
from penstock.net.live import LiveCapture, read_captured, spool_of
from penstock.testing.sources import read_range

UDP_ONLY = "4,48 0 0 23,21 0 1 17,6 0 0 262144,6 0 0 0"


def may_capture() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except (AttributeError, PermissionError):
        return False
    return True


needs_rights = pytest.mark.skipif(not may_capture(), reason="capturing needs the right CAP_NET_RAW")


class Sender:
    """Sends datagrams to a port of its own, so that other traffic on loopback can be told apart."""

    def __init__(self) -> None:
        self._receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver.bind(("127.0.0.1", 0))
        self.port = self._receiver.getsockname()[1]
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, count: int, size: int = 100) -> None:
        for number in range(count):
            self._sender.sendto(number.to_bytes(4, "big") + bytes(size - 4), ("127.0.0.1", self.port))

    def close(self) -> None:
        self._receiver.close()
        self._sender.close()


@pytest.fixture
def sender() -> Iterator[Sender]:
    made = Sender()
    yield made
    made.close()


def wait_for(capture: LiveCapture, packets: int) -> None:
    """Until so many packets were kept or refused."""
    until = time.monotonic() + 20
    while capture.captured.packets + capture.captured.refused < packets and time.monotonic() < until:
        time.sleep(0.01)


def read_all(source: Interface, state: Path) -> tuple[pl.DataFrame, list[BadRecord]]:
    planner = source.planner(state)
    start = planner.initial()
    return read_range(source, planner, start, planner.latest(start, Limit()), 2)


@needs_rights
def test_packets_on_loopback_are_read_once_and_in_order(tmp_path: Path, sender: Sender) -> None:
    source = Interface("lo", columns=["time", "protocol", "dst_port", "length", "packet"])
    with source.attend(tmp_path) as capture:
        sender.send(500)
        wait_for(capture, 500)
    rows, bad = read_all(source, tmp_path)
    ours = rows.filter(pl.col("dst_port") == sender.port, pl.col("protocol") == 17)
    assert ours["packet"].bin.slice(42, 4).to_list() == [n.to_bytes(4, "big") for n in range(500)]
    assert ours["length"].unique().to_list() == [142]
    assert abs(ours["time"].dt.epoch("s")[0] - time.time()) < 60
    assert bad == []


@needs_rights
def test_a_filter_and_a_snap_length_are_kept_to(tmp_path: Path, sender: Sender) -> None:
    source = Interface("lo", columns=["protocol", "captured", "length"], bpf=UDP_ONLY, snap_bytes=60)
    server = socket.create_server(("127.0.0.1", 0))
    with source.attend(tmp_path) as capture, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"not this")
        sender.send(20)
        wait_for(capture, 20)
    server.close()
    rows, _ = read_all(source, tmp_path)
    assert rows["protocol"].unique().to_list() == [17]
    assert rows["captured"].max() == 60
    assert rows["length"].max() == 142


@needs_rights
def test_a_capture_goes_on_in_a_new_file_and_read_ones_are_removed(tmp_path: Path, sender: Sender) -> None:
    source = Interface("lo", columns=["dst_port"])
    planner = source.planner(tmp_path)
    offset, seen = planner.initial(), 0
    for _ in range(3):
        with LiveCapture(source, tmp_path, rotate_bytes=20_000) as capture:
            before = capture.captured.packets
            sender.send(400)
            wait_for(capture, before + 400)
        planner = source.planner(tmp_path)  # a restart
        end = planner.latest(offset, Limit())
        rows, _ = read_range(source, planner, offset, end, 2)
        seen += rows.filter(pl.col("dst_port") == sender.port).height
        planner.commit(end)
        offset = end
    assert seen == 1200
    assert len(list(spool_of(tmp_path).glob("*.pcap"))) == 1, "all but the newest"
    assert planner.latest(offset, Limit()) == offset


@needs_rights
def test_a_full_spool_refuses_packets_and_says_how_many(tmp_path: Path, sender: Sender) -> None:
    source = Interface("lo", columns=["dst_port"], spool_bytes=1 << 20)
    with source.attend(tmp_path) as capture:
        for _ in range(40):
            sender.send(60, 1000)
            time.sleep(0.01)
        wait_for(capture, 2400)
    captured = read_captured(tmp_path)
    assert sum(path.stat().st_size for path in spool_of(tmp_path).iterdir()) <= (1 << 20) + 24
    rows, bad = read_all(source, tmp_path)
    assert rows.height == captured.packets
    assert captured.packets + captured.refused >= 2400
    assert captured.refused > 0
    assert [record.reason.split()[0] for record in bad] == [str(captured.refused)]


def test_a_loss_is_told_once(tmp_path: Path) -> None:
    source = Interface("lo")
    planner = InterfacePlanner(source, tmp_path)
    start = planner.initial()
    (tmp_path / "captured.json").write_text('{"packets": 0, "bytes": 0, "dropped": 7, "refused": 0}')
    end = planner.latest(start, Limit())
    _, bad = read_range(source, planner, start, end, 2)
    assert [("7 packets" in record.reason, record.where) for record in bad] == [(True, "lo")]
    assert planner.latest(end, Limit()) == end


def test_a_capture_that_failed_is_told(tmp_path: Path) -> None:
    planner = Interface("lo").planner(tmp_path)
    (tmp_path / "failure").write_text("no space left on device")
    with pytest.raises(SourceUnavailable, match="no space left"):
        planner.latest(planner.initial(), Limit())


def test_an_interface_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable) as error, Interface("nothing0").attend(tmp_path):
        pass
    assert error.value.parameters["where"] == "nothing0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give its rights up")
def test_without_rights_the_error_says_what_to_do(tmp_path: Path) -> None:
    spare, error = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            Interface("lo").attend(tmp_path).__enter__()
        except SourceUnavailable as problem:
            os.write(error, str(problem).encode())
        finally:
            os._exit(0)
    os.close(error)
    os.waitpid(child, 0)
    told = os.read(spare, 10_000).decode()
    os.close(spare)
    assert "CAP_NET_RAW" in told
    assert "setcap" in told


@pytest.mark.parametrize(
    ("what", "arguments"),
    [("snap_bytes", {"snap_bytes": 0}), ("spool_bytes", {"spool_bytes": 5}), ("columns", {"columns": ["x"]})],
)
def test_a_wrong_argument_is_named(what: str, arguments: dict[str, object]) -> None:
    with pytest.raises(BadArgument) as error:
        Interface("lo", **arguments)  # type: ignore[arg-type]
    assert error.value.parameters["what"] == what


@needs_rights
@pytest.mark.parametrize("bpf", ["", "1", "2,6 0 0 1", "udp port 53", "1,6 0 0 99999999999"])
def test_a_filter_that_is_no_program_is_refused(bpf: str, tmp_path: Path) -> None:
    with pytest.raises(BadArgument) as error, Interface("lo", bpf=bpf or " ").attend(tmp_path):
        pass
    assert error.value.parameters["what"] == "bpf"


def test_a_tag_that_the_card_took_off_is_put_back() -> None:
    packet = m.ethernet(m.ipv4(m.udp(b"abc")))
    ring = np.zeros(BLOCK_BYTES, np.uint8)
    words = ring.view(np.uint32)
    words[3], words[4] = 2, 48  # two packets, the first at 48
    for at, status in ((48, 0x51), (48 + 256, 0x01)):
        words[at // 4 : at // 4 + 6] = 256, 5, 6, len(packet), len(packet), status
        ring.view(np.uint16)[(at + 24) // 2] = 80
        words[(at + 32) // 4] = 0x2005
        ring.view(np.uint16)[(at + 36) // 2] = 0x88A8
        ring[at + 80 : at + 80 + len(packet)] = np.frombuffer(packet, np.uint8)
    out = np.zeros(BLOCK_BYTES, np.uint8)
    size, count = take_block(ring, 0, 65535, True, out)
    tagged = m.ethernet(m.ipv4(m.udp(b"abc")), tags=[(0x88A8, 0x2005)])
    expected = m.pcap([tagged, packet], is_nano=True)[24:]
    times = (5).to_bytes(4, "little") + (6).to_bytes(4, "little")
    assert count == 2
    assert (
        out[:size].tobytes() == times + expected[8 : 16 + len(tagged)] + times + expected[24 + len(tagged) :]
    )
