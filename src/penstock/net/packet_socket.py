"""Linux's packet socket with a ring that the kernel fills: packets arrive without a call for each."""

from __future__ import annotations

import ctypes
import mmap
import platform
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from penstock.errors import BadArgument, SourceUnavailable
from penstock.net._ring import BLOCK_BYTES, BLOCK_STATUS, take_block

BLOCKS = 64
_FRAME_BYTES = 1 << 11
_RETIRE_MS = 50
_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 263, 1, 5, 6, 10
_TPACKET_V3, _MR_PROMISC, _ETH_P_ALL, _SO_ATTACH_FILTER = 2, 1, 3, 26
_RING, _MEMBER, _PROGRAM, _STEP, _COUNTS = (
    struct.Struct(form) for form in ("7I", "iHH8s", "HL", "HBBI", "3I")
)
"""The kernel's struct tpacket_req3, packet_mreq, sock_fprog (padding of the machine in between), sock_filter
and tpacket_stats_v3."""
_LINKS = {1: 1, 772: 1, 512: 9, 519: 101, 65534: 101}  # ARPHRD of an interface: link type of pcap
_LOOPBACK, _WORD_BYTES = 772, 8


class Instruction(NamedTuple):
    """One step of a classic BPF program."""

    code: int
    jump_true: int
    jump_false: int
    value: int


def read_program(text: str) -> tuple[Instruction, ...]:
    """A BPF program as ``tcpdump -ddd EXPRESSION`` prints it; commas may stand for line breaks."""
    lines = [line.split() for line in text.replace(",", "\n").split("\n") if line.strip()]
    try:
        count, program = int(lines[0][0]), tuple(Instruction(*map(int, line)) for line in lines[1:])
        packed = [_STEP.pack(*step) for step in program]
    except (ValueError, TypeError, IndexError, struct.error):
        count, packed = -1, []
    if count != len(packed) or not packed:
        allowed = "a program as `tcpdump -ddd EXPRESSION` prints it: its length, then four numbers per step"
        raise BadArgument(where="Interface", what="bpf", got=repr(text), allowed=allowed)
    return program


class PacketSocket:
    """Packets of one interface, in blocks, as pcap records."""

    def __init__(
        self, interface: str, *, snap_bytes: int, promiscuous: bool, program: Sequence[Instruction] = ()
    ) -> None:
        self._snap_bytes = snap_bytes
        self._socket = _opened(interface)
        try:
            self.link_type, self._only_incoming = _link(interface)
            self._attach(program or (Instruction(6, 0, 0, snap_bytes),))
            self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
            frames = BLOCK_BYTES // _FRAME_BYTES * BLOCKS
            shape = _RING.pack(BLOCK_BYTES, BLOCKS, _FRAME_BYTES, frames, _RETIRE_MS, 0, 0)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, shape)
            self._memory = mmap.mmap(self._socket.fileno(), BLOCK_BYTES * BLOCKS)
            if promiscuous:
                index = socket.if_nametoindex(interface)
                member = _MEMBER.pack(index, _MR_PROMISC, 0, b"")
                self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, member)
            self._socket.bind((interface, _ETH_P_ALL))
        except OSError as error:
            self._socket.close()
            step = "see that the interface is up (`ip link`)"
            raise _unavailable(interface, f"it cannot be captured ({error})", step) from error
        except BaseException:
            self._socket.close()
            raise
        self._ring = np.frombuffer(self._memory, np.uint8)
        self._out = np.empty(2 * BLOCK_BYTES, np.uint8)
        self._block = 0

    def fileno(self) -> int:
        """For poll: readable when a block is full, or its time has come."""
        return self._socket.fileno()

    def take(self) -> tuple[memoryview, int] | None:
        """The records of the next block and how many there are; None while the kernel has it.

        They are good until the next call.
        """
        begin = self._block * BLOCK_BYTES
        status = slice(begin + BLOCK_STATUS, begin + BLOCK_STATUS + 4)
        if not self._ring[status.start] & 1:
            return None
        size, packets = take_block(self._ring, begin, self._snap_bytes, self._only_incoming, self._out)
        self._ring[status] = 0
        self._block = (self._block + 1) % BLOCKS
        return self._out.data[:size], packets

    def dropped(self) -> int:
        """How many packets the kernel had no room for since the last call."""
        counts = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _COUNTS.size)
        return int(_COUNTS.unpack(counts)[1])

    def close(self) -> None:
        """Let the interface go."""
        del self._ring
        self._memory.close()
        self._socket.close()

    def _attach(self, program: Sequence[Instruction]) -> None:
        code = b"".join(_STEP.pack(*step) for step in program)
        memory = ctypes.create_string_buffer(code, len(code))
        attached = _PROGRAM.pack(len(program), ctypes.addressof(memory))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)


def _opened(interface: str) -> socket.socket:
    if not hasattr(socket, "AF_PACKET"):
        raise _unavailable(
            interface, "live capture needs Linux", "capture to files and read them with net.Pcap"
        )
    if sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES:
        what = (
            f"its ring is read as 64-bit, little-endian machines lay it out, and this is {platform.machine()}"
        )
        raise _unavailable(interface, what, "capture to files and read them with net.Pcap")
    if not Path("/sys/class/net", interface).exists():
        there = ", ".join(sorted(path.name for path in Path("/sys/class/net").iterdir()))
        raise _unavailable(interface, "there is no such interface", f"choose one of: {there}")
    try:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        step = (
            "run it with sudo, or give Python the right once: "
            "sudo setcap cap_net_raw,cap_net_admin+ep $(readlink -f $(which python3))"
        )
        raise _unavailable(interface, "capturing needs the right CAP_NET_RAW", step) from None


def _link(interface: str) -> tuple[int, bool]:
    """The link type of pcap, and whether it is loopback."""
    kind = int(Path("/sys/class/net", interface, "type").read_text())
    if kind not in _LINKS:
        step = "capture it with another tool and read its files with net.Pcap"
        raise _unavailable(interface, f"its hardware type {kind} is not known here", step)
    return _LINKS[kind], kind == _LOOPBACK


def _unavailable(interface: str, what: str, step: str) -> SourceUnavailable:
    return SourceUnavailable(source="interface", what=what, where=interface, next_step=step)
