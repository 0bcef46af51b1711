"""What is declared by hand of Linux's packet ring is what its headers say, and other machines are refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import SourceUnavailable
from penstock.net import _ring, packet_socket

_HEADERS = Path("/usr/include/linux/if_packet.h")
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not _HEADERS.exists(), reason="no C compiler or no headers of Linux"
)
_HEADER, _BLOCK = "struct tpacket3_hdr", "struct tpacket_block_desc"
PLACES = {
    f"offsetof({_BLOCK}, hdr.bh1.block_status)": _ring.BLOCK_STATUS,
    f"offsetof({_BLOCK}, hdr.bh1.num_pkts)": _ring._BLOCK_PACKETS,
    f"offsetof({_BLOCK}, hdr.bh1.offset_to_first_pkt)": _ring._BLOCK_FIRST,
    f"offsetof({_HEADER}, tp_next_offset)": _ring._NEXT,
    f"offsetof({_HEADER}, tp_sec)": _ring._SECONDS,
    f"offsetof({_HEADER}, tp_nsec)": _ring._NANOSECONDS,
    f"offsetof({_HEADER}, tp_snaplen)": _ring._CAPTURED,
    f"offsetof({_HEADER}, tp_len)": _ring._LENGTH,
    f"offsetof({_HEADER}, tp_status)": _ring._STATUS,
    f"offsetof({_HEADER}, tp_mac)": _ring._MAC,
    f"offsetof({_HEADER}, hv1.tp_vlan_tci)": _ring._TAG,
    f"offsetof({_HEADER}, hv1.tp_vlan_tpid)": _ring._TAG_KIND,
    f"TPACKET_ALIGN(sizeof({_HEADER})) + offsetof(struct sockaddr_ll, sll_pkttype)": _ring._DIRECTION,
    f"sizeof({_HEADER})": 48,  # `_ring.take_block` derives its bound from it
    "sizeof(struct tpacket_req3)": packet_socket._RING.size,
    "sizeof(struct packet_mreq)": packet_socket._MEMBER.size,
    "sizeof(struct sock_fprog)": packet_socket._PROGRAM.size,
    "offsetof(struct sock_fprog, filter)": packet_socket._PROGRAM.size - packet_socket._WORD_BYTES,
    "sizeof(struct sock_filter)": packet_socket._STEP.size,
    "sizeof(struct tpacket_stats_v3)": packet_socket._COUNTS.size,
    "TPACKET_V3": packet_socket._TPACKET_V3,
    "PACKET_OUTGOING": _ring._OUTGOING,
    "TP_STATUS_VLAN_VALID": _ring._HAS_TAG,
    "TP_STATUS_VLAN_TPID_VALID": _ring._HAS_TAG_KIND,
}


@needs_compiler
def test_places_and_sizes_are_those_of_the_kernels_headers(tmp_path: Path) -> None:
    checks = "\n".join(f'_Static_assert({what} == {value}, "{what}");' for what, value in PLACES.items())
    headers = ("stddef.h", "linux/if_packet.h", "linux/filter.h")
    source = "\n".join([*(f"#include <{name}>" for name in headers), checks])
    (tmp_path / "places.c").write_text(source)
    command = ["cc", "-std=c11", "-fsyntax-only", str(tmp_path / "places.c")]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize("order", ["big"])
def test_a_machine_that_lays_the_ring_out_otherwise_is_refused(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "byteorder", order)
    with pytest.raises(SourceUnavailable) as error:
        packet_socket.PacketSocket("lo", snap_bytes=64, promiscuous=False)
    assert "little-endian" in error.value.parameters["what"]
    assert "net.Pcap" in error.value.parameters["next_step"]
