"""Bytes of a message with places that differ from exchange to exchange: a template and its patches."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum


class Register(IntEnum):
    """The columns of a drawn exchange. The first six say what it is; patches read the others."""

    SCRIPT = 0
    SUBSCRIBER = 1
    START_US = 2
    HASH = 3
    IS_TUNNELLED = 4
    VERSION = 5
    SALT = 6
    OTHER_SALT = 7
    CLIENT_ISN = 8
    SERVER_ISN = 9
    CLIENT_IP = 10
    SERVER_IP = 11
    CLIENT_PORT = 12
    SERVER_PORT = 13
    CLIENT_MEDIA_PORT = 14
    SERVER_MEDIA_PORT = 15
    IMSI = 16
    MSISDN = 17
    TEID_UP = 18
    TEID_DOWN = 19
    CONTROL_UP = 20
    CONTROL_DOWN = 21
    AREA = 22
    CELL = 23
    V6_HIGH = 24
    V6_LOW = 25
    SERVING_IP = 26
    GATEWAY_IP = 27
    SUBSCRIBER_IP = 28
    NUMBER = 29


REGISTERS = len(Register)


class Fill(IntEnum):
    """How a patch writes its register."""

    ADD = 0  # the template's number plus the register, in ``width`` bytes
    XOR = 1
    MIXED = 2  # bytes that look random
    DIGITS = 3  # decimal text of a fixed width
    ADDRESS = 4  # an IPv4 address as text of 15 characters
    BCD = 5  # telephony's digits, two in a byte, the first in the lower half


@dataclass(frozen=True, slots=True)
class Patch:
    """A place in a template that takes a value from a register."""

    at: int
    fill: Fill
    register: Register
    width: int


@dataclass(frozen=True, slots=True)
class Message:
    """A template; ``+`` puts one behind the other.

    >>> (raw(b"ab") + number(2, Register.SALT)).patches[0].at
    2
    """

    data: bytes
    patches: tuple[Patch, ...] = ()

    def __add__(self, other: Message) -> Message:
        shift = len(self.data)
        moved = tuple(replace(patch, at=patch.at + shift) for patch in other.patches)
        return Message(self.data + other.data, self.patches + moved)

    def __len__(self) -> int:
        return len(self.data)

    def cut(self, size: int) -> list[Message]:
        """Pieces of at most ``size`` bytes; a patch must lie in one of them."""
        pieces = []
        for begin in range(0, len(self.data), size):
            inside = [p for p in self.patches if begin <= p.at < begin + size]
            assert all(p.at + p.width <= begin + size for p in inside), "a patch lies over a cut"
            patches = tuple(replace(p, at=p.at - begin) for p in inside)
            pieces.append(Message(self.data[begin : begin + size], patches))
        return pieces


def raw(data: bytes) -> Message:
    """Bytes that are the same in every exchange."""
    return Message(data)


def text(words: str) -> Message:
    """Text that is the same in every exchange."""
    return Message(words.encode())


def number(width: int, register: Register, plus: int = 0) -> Message:
    """A number in network order: the register plus something."""
    return Message(plus.to_bytes(width, "big"), (Patch(0, Fill.ADD, register, width),))


def masked(width: int, register: Register, mask: int) -> Message:
    """A number in network order, exclusive-or a mask."""
    return Message(mask.to_bytes(width, "big"), (Patch(0, Fill.XOR, register, width),))


def mixed(width: int, register: Register) -> Message:
    """Bytes that look random and depend on the register."""
    return Message(bytes(width), (Patch(0, Fill.MIXED, register, width),))


def digits(width: int, register: Register) -> Message:
    """The register as text, cut or filled with zeros to a width."""
    return Message(b"0" * width, (Patch(0, Fill.DIGITS, register, width),))


def address_text(register: Register) -> Message:
    """An address as text; all addresses of clients and servers have octets of three digits."""
    return Message(b"100.100.100.100", (Patch(0, Fill.ADDRESS, register, 15),))


def bcd(count: int, register: Register) -> Message:
    """The register's decimal digits as telephony writes them; an odd one out is filled with 15."""
    width = (count + 1) // 2
    template = bytes([count]) + bytes(width - 1)  # the kernel reads the number of digits here
    return Message(template, (Patch(0, Fill.BCD, register, width),))


def sized(width: int, content: Message) -> Message:
    """A length in network order, then what has it."""
    return raw(len(content).to_bytes(width, "big")) + content


def u16(*values: int) -> bytes:
    """Numbers of two bytes."""
    return struct.pack(f">{len(values)}H", *values)
