"""What a message of GTP's control plane says, and the elements that its versions share.

A parser reads slices of bytes, which never fail; what has the wrong size raises `Malformed`, which stays
inside of `gtp_control`.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from typing import Any

REASONS = (
    "ok",
    "truncated header",
    "unknown version",
    "longer than the packet",
    "malformed extension header",
    "unknown element of unknown length",
    "malformed element",
    "malformed message behind another one",
)
"""Why a message is not, or not fully, decoded; the column ``reason`` is a place in this list."""
(
    OK, CUT_HEADER, UNKNOWN_VERSION, TOO_LONG, BAD_EXTENSION, UNKNOWN_ELEMENT, BAD_ELEMENT, BAD_PIGGYBACK,
) = range(len(REASONS))  # fmt: skip

MAPPED = 0xFFFF_0000_0000
NO_BEARER = 255
_LOW = (1 << 64) - 1
# How near a kind of location leads; a message may have several.
LOCATIONS = ("", "lai", "rai", "tai", "sai", "cgi", "ecgi")

Address = tuple[int, int]


class Malformed(Exception):
    """The message breaks off here; the number of the reason."""

    def __init__(self, reason: int) -> None:
        super().__init__(REASONS[reason])
        self.reason = reason


@dataclass(slots=True)
class Message:
    """One message, as far as it could be read."""

    version: int = 0
    message_type: int = 0
    kind: str = "other"
    reason: int = OK
    sequence: int | None = None
    teid: int | None = None
    control_teid: int | None = None
    control_ip: Address | None = None
    user_tunnels: list[dict[str, int]] = field(default_factory=list)
    imsi: str | None = None
    msisdn: str | None = None
    mcc: str | None = None
    mnc: str | None = None
    location: str | None = None
    area: int | None = None
    cell: int | None = None
    apn: str | None = None
    user_ips: list[str] = field(default_factory=list)
    cause: int | None = None
    is_accepted: bool | None = None
    bearers: list[int] = field(default_factory=list)
    linked_bearer: int | None = None
    is_teardown: bool = False

    def add_tunnel(self, ip: Address, teid: int, bearer: int = NO_BEARER, interface: int = 0) -> None:
        """Note where the sender of the message, or who it speaks for, takes packets of a user."""
        end = {"ip_high": ip[0], "ip_low": ip[1], "teid": teid, "bearer": bearer, "interface": interface}
        if end not in self.user_tunnels:
            self.user_tunnels.append(end)

    def set_location(self, kind: str, plmn: bytes, area: int, cell: int | None) -> None:
        """Keep the nearest location that is told; an area is kept for a cell that comes without one."""
        known = LOCATIONS.index(self.location or "")
        if LOCATIONS.index(kind) < known:
            return
        self.mcc, self.mnc = network(plmn)
        self.location, self.area, self.cell = kind, area, cell


def sized(value: bytes, least: int) -> bytes:
    """The value, if it has at least so many bytes."""
    if len(value) < least:
        raise Malformed(BAD_ELEMENT)
    return value


def number(value: bytes, begin: int, end: int) -> int:
    """Bytes of a value in network order."""
    return int.from_bytes(sized(value, end)[begin:end], "big")


def digits(value: bytes) -> str | None:
    """Digits in half bytes, the lower half first, up to a filler; None if there is anything else or nothing.

    >>> digits(bytes.fromhex("00010200000060f4"))
    '001020000000064'
    """
    halves = value.hex()
    text = "".join(b + a for a, b in zip(halves[::2], halves[1::2], strict=True))
    found = text.rstrip("f")
    return found if found.isdecimal() else None


def network(plmn: bytes) -> tuple[str | None, str | None]:
    """Country and network of three bytes; the network has two digits or three.

    >>> network(bytes.fromhex("64f629")), network(bytes.fromhex("130062"))
    (('466', '92'), ('310', '260'))
    """
    a, b, c = sized(plmn, 3)[:3]
    mcc = f"{a & 15:x}{a >> 4:x}{b & 15:x}"
    mnc = f"{c & 15:x}{c >> 4:x}" + (f"{b >> 4:x}" if b >> 4 != 15 else "")
    return (mcc, mnc) if (mcc + mnc).isdecimal() else (None, None)


def address(value: bytes) -> Address:
    """An address of 4 or 16 bytes as two halves."""
    if len(value) == 4:
        return 0, MAPPED | int.from_bytes(value, "big")
    if len(value) != 16:
        raise Malformed(BAD_ELEMENT)
    both = int.from_bytes(value, "big")
    return both >> 64, both & _LOW


def address_text(value: bytes) -> str:
    """An address of 4 or 16 bytes, as people write it."""
    if len(value) not in (4, 16):
        raise Malformed(BAD_ELEMENT)
    return str(ipaddress.ip_address(value))


def access_point(value: bytes) -> str | None:
    """The labels of an access point's name with dots between them.

    >>> access_point(b"\\x03ims\\x02de")
    'ims.de'
    """
    labels, at = [], 0
    while at < len(value):
        size = value[at]
        labels.append(sized(value[at + 1 :], size)[:size].decode("ascii", "replace"))
        at += 1 + size
    return ".".join(labels) or None


_FIELDS = tuple(each.name for each in fields(Message) if each.name != "control_ip")


def columns(message: Message) -> dict[str, Any]:
    """The message as values of columns of `gtp_control.CONTROL`."""
    high, low = message.control_ip or (None, None)
    values = {name: getattr(message, name) for name in _FIELDS}
    return {**values, "control_ip_high": high, "control_ip_low": low}
