"""The keys of QUIC's Initial packets, which the packet itself gives away (RFC 9001 and 9369)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Literal

V1, V2 = 0x00000001, 0x6B3343CF
_DRAFT = 0xFF000000
_SALT_V1 = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
_SALT_V2 = bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9")
_SALT_23_TO_28 = bytes.fromhex("c3eef712c72ebb5a11a7d2432bb46365bef9f502")
_SALT_29_TO_32 = bytes.fromhex("afbfec289993d24c9e9786f19c6111e04390a899")
_KEY_PARTS = ((b"key", 16), (b"iv", 12), (b"hp", 16))
Side = Literal["client", "server"]


@dataclass(frozen=True, slots=True)
class Keys:
    """What protects one direction."""

    key: bytes
    iv: bytes
    header: bytes


def initial_keys(destination: bytes, side: Side, version: int = V1) -> Keys | None:
    """The keys from the first destination connection ID; None for a version whose salt is not known."""
    salt = _salt(version)
    if salt is None:
        return None
    secret = _expand_label(hmac.digest(salt, destination, "sha256"), f"{side} in".encode(), 32)
    prefix = b"quicv2 " if version == V2 else b"quic "
    return Keys(*(_expand_label(secret, prefix + label, size) for label, size in _KEY_PARTS))


def _salt(version: int) -> bytes | None:
    if version in (V1, V2):
        return _SALT_V1 if version == V1 else _SALT_V2
    draft = version - _DRAFT
    if 23 <= draft <= 28:
        return _SALT_23_TO_28
    if 29 <= draft <= 32:
        return _SALT_29_TO_32
    return _SALT_V1 if draft in (33, 34) else None


def _expand_label(secret: bytes, label: bytes, size: int) -> bytes:
    """TLS 1.3's HKDF-Expand-Label without a context, for at most 32 bytes."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    return hmac.digest(secret, info + b"\x01", "sha256")[:size]
