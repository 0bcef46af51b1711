"""QUIC version 1: Initial packets protected as RFC 9001 says, then packets nobody can read.

The keys depend on the connection IDs, so a script is the same bytes each time; only the addresses differ.
"""

from __future__ import annotations

import random

from penstock.net.quic_keys import Keys, Side, initial_keys
from penstock.net.synth.aes import Aes128, gcm_seal
from penstock.net.synth.message import raw
from penstock.net.synth.script import TO_CLIENT, TO_SERVER, Script, Writer
from penstock.net.synth.tls import client_hello, server_hello

_VERSION = b"\0\0\0\x01"
_INITIAL, _HANDSHAKE = 0xC0, 0xE0
_TAG_BYTES, _NUMBER_BYTES = 16, 4
_DATAGRAM_BYTES = 1200


def varint(value: int) -> bytes:
    """A number as QUIC writes it.

    >>> varint(37).hex(), varint(15293).hex()
    ('25', '7bbd')
    """
    for width, mark in ((1, 0), (2, 1), (4, 2)):
        if value < 1 << (8 * width - 2):
            return (value | mark << (8 * width - 2)).to_bytes(width, "big")
    raise ValueError(f"{value} is longer than templates need")


def protected(first: bytes, number: int, plain: bytes, keys: Keys) -> bytes:
    """A long-header packet sealed, its header masked. ``first`` is the header up to the length."""
    length = _NUMBER_BYTES + len(plain) + _TAG_BYTES
    header = bytes([first[0] | _NUMBER_BYTES - 1]) + first[1:]
    header += (length | 0x4000).to_bytes(2, "big") + number.to_bytes(_NUMBER_BYTES, "big")
    nonce = (int.from_bytes(keys.iv, "big") ^ number).to_bytes(12, "big")
    sealed = gcm_seal(keys.key, nonce, plain, header)
    mask = Aes128(keys.header).block(sealed[4 - _NUMBER_BYTES :][:16])
    at = len(header) - _NUMBER_BYTES
    hidden = bytes(a ^ b for a, b in zip(header[at:], mask[1:], strict=False))
    return bytes([header[0] ^ mask[0] & 0x0F]) + header[1:at] + hidden + sealed


def _keys(destination: bytes, side: Side) -> Keys:
    keys = initial_keys(destination, side)
    assert keys is not None  # of version 1 they are known
    return keys


def _long(kind: int, destination: bytes, source: bytes, token: bytes = b"") -> bytes:
    ids = bytes([len(destination)]) + destination + bytes([len(source)]) + source
    return bytes([kind]) + _VERSION + ids + (varint(len(token)) + token if kind == _INITIAL else b"")


def _crypto(content: bytes) -> bytes:
    return b"\x06\0" + varint(len(content)) + content


def _parameters(source: bytes) -> bytes:
    """Transport parameters: limits of data and streams, and the client's connection ID."""
    limits = {0x01: 30_000, 0x04: 1_048_576, 0x05: 262_144, 0x06: 262_144, 0x07: 262_144, 0x08: 100, 0x09: 3}
    out = b"".join(bytes([k]) + varint(len(varint(v))) + varint(v) for k, v in limits.items())
    out += b"\x0f" + varint(len(source)) + source
    return b"\0\x39" + len(out).to_bytes(2, "big") + out


def client_initial(host: str, destination: bytes, source: bytes, rng: random.Random) -> bytes:
    """A client's first datagram: its hello for the host, padded."""
    hello = client_hello(
        host, ("h3",), is_13=True, fill=lambda n: raw(rng.randbytes(n)), more=raw(_parameters(source))
    )
    first = _long(_INITIAL, destination, source)
    room = _DATAGRAM_BYTES - len(first) - 2 - _NUMBER_BYTES - _TAG_BYTES
    plain = _crypto(hello.data).ljust(room, b"\0")
    return protected(first, 0, plain, _keys(destination, "client"))


def server_initial(original: bytes, client: bytes, server: bytes, rng: random.Random) -> bytes:
    """The answer: an acknowledgement and the server's hello, filled up with a handshake packet."""
    hello = server_hello("h3", is_13=True, fill=lambda n: raw(rng.randbytes(n)))
    plain = b"\x02\0\0\0\0" + _crypto(hello.data)
    packet = protected(_long(_INITIAL, client, server), 0, plain, _keys(original, "server"))
    head = _long(_HANDSHAKE | rng.randrange(16), client, server)
    rest = _DATAGRAM_BYTES - len(packet) - len(head) - 2
    return packet + head + (rest | 0x4000).to_bytes(2, "big") + rng.randbytes(rest)


def _short(destination: bytes, size: int, rng: random.Random) -> bytes:
    return (
        bytes([0x40 | rng.randrange(32)]) + destination + rng.randbytes(max(21, size - 1 - len(destination)))
    )


def quic_script(host: str, size: int, rng: random.Random) -> Script:
    """A client fetches something over HTTP/3; ``size`` is what one datagram of it carries."""
    original, client, server = rng.randbytes(8), rng.randbytes(8), rng.randbytes(8)
    writer = Writer("quic", host, round_trip_us=rng.randrange(8_000, 60_000))
    c = writer.udp("QUIC", 443)
    writer.say(c, TO_SERVER, raw(client_initial(host, original, client, rng)))
    writer.say(c, TO_CLIENT, raw(server_initial(original, client, server, rng)))
    head = _long(_HANDSHAKE | rng.randrange(16), server, client)
    writer.say(c, TO_SERVER, raw(head + b"\x40\x50" + rng.randbytes(80)))
    for _ in range(rng.randrange(1, 4)):
        writer.say(c, TO_SERVER, raw(_short(server, rng.randrange(60, 300), rng)))
        for i in range(rng.randrange(6, 18)):
            writer.say(c, TO_CLIENT, raw(_short(client, size, rng)))
            if i % 4 == 3:
                writer.say(c, TO_SERVER, raw(_short(server, 34, rng)))
        writer.pause(rng.randrange(1_000, 80_000))
    return writer.script()
