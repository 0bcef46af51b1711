"""TLS 1.2 and 1.3: hellos with server name and ALPN, a certificate, then records nobody can read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from penstock.net.synth.message import Message, Register, mixed, raw, sized, text, u16
from penstock.net.synth.script import TO_CLIENT, TO_SERVER, Script, Writer

Randomness = Callable[[int], Message]
_HANDSHAKE, _CIPHER_SPEC, _DATA = 22, 20, 23
_SUITES_13 = (0x1301, 0x1302, 0x1303)
_SUITES_12 = (0xC02F, 0xC030, 0xC02B, 0xC02C, 0xCCA8)
_GROUPS, _SIGNATURES = (0x001D, 0x0017, 0x0018), (0x0403, 0x0804, 0x0401, 0x0503)
_X25519_BYTES = 32
_NOTHING = raw(b"")


def _client_random(width: int) -> Message:
    return mixed(width, Register.SALT)


def _server_random(width: int) -> Message:
    return mixed(width, Register.OTHER_SALT)


def record(kind: int, content: Message, version: int = 0x0303) -> Message:
    """One record."""
    return raw(bytes([kind]) + u16(version)) + sized(2, content)


def handshake(kind: int, content: Message) -> Message:
    """One message of the handshake."""
    return raw(bytes([kind])) + sized(3, content)


def _extension(kind: int, content: Message) -> Message:
    return raw(u16(kind)) + sized(2, content)


def _listed(values: Sequence[int]) -> Message:
    return sized(2, raw(u16(*values)))


def server_name(host: str) -> Message:
    """The extension that tells the server which of its names is meant."""
    return _extension(0, sized(2, raw(b"\0") + sized(2, text(host))))


def alpn(protocols: Sequence[str]) -> Message:
    """The extension that offers application protocols."""
    names = b"".join(bytes([len(name)]) + name.encode() for name in protocols)
    return _extension(16, sized(2, raw(names)))


def client_hello(
    host: str,
    protocols: Sequence[str],
    *,
    is_13: bool,
    fill: Randomness = _client_random,
    more: Message = _NOTHING,
) -> Message:
    """A client's hello, as a handshake message."""
    suites = (_SUITES_13 if is_13 else ()) + _SUITES_12
    extensions = server_name(host) + _extension(23, raw(b"")) + _extension(0xFF01, raw(b"\0"))
    extensions += _extension(10, _listed(_GROUPS)) + _extension(11, raw(b"\x01\0"))
    extensions += alpn(protocols) + _extension(13, _listed(_SIGNATURES))
    if is_13:
        share = raw(u16(0x001D)) + sized(2, fill(_X25519_BYTES))
        extensions += _extension(51, sized(2, share)) + _extension(45, raw(b"\x01\x01"))
        extensions += _extension(43, sized(1, raw(u16(0x0304, 0x0303))))
    extensions += more
    session = raw(b"\x20") + fill(32)
    hello = raw(u16(0x0303)) + fill(32) + session + _listed(suites) + raw(b"\x01\0")
    return handshake(1, hello + sized(2, extensions))


def server_hello(protocol: str, *, is_13: bool, fill: Randomness = _server_random) -> Message:
    """A server's answer, as a handshake message."""
    suite = _SUITES_13[0] if is_13 else _SUITES_12[0]
    if is_13:
        share = raw(u16(0x001D)) + sized(2, fill(_X25519_BYTES))
        extensions = _extension(43, raw(u16(0x0304))) + _extension(51, share)
    else:
        extensions = _extension(0xFF01, raw(b"\0")) + alpn([protocol])
    head = raw(u16(0x0303)) + fill(32) + raw(b"\x20") + fill(32) + raw(u16(suite) + b"\0")
    return handshake(2, head + sized(2, extensions))


def data(size: int, rng: random.Random) -> Message:
    """A record of application data, ``size`` bytes with its header."""
    return record(_DATA, raw(rng.randbytes(max(1, size - 5))))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + u16(size) if size > 255 else bytes([0x81, size])
    return bytes([tag]) + length + content


def certificate(host: str, rng: random.Random) -> bytes:
    """An X.509 certificate for a host, well formed; its key and signature are random."""
    ecdsa = _der(0x30, bytes.fromhex("06082a8648ce3d040302"))
    key_kind = _der(0x30, bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06082a8648ce3d030107"))

    def name(common: str) -> bytes:
        return _der(0x30, _der(0x31, _der(0x30, bytes.fromhex("0603550403"), _der(0x0C, common.encode()))))

    times = _der(0x30, _der(0x17, b"250101000000Z"), _der(0x17, b"350101000000Z"))
    key = _der(0x30, key_kind, _der(0x03, b"\0\x04" + rng.randbytes(64)))
    names = _der(0x30, _der(0x82, host.encode()))
    alternative = _der(0xA3, _der(0x30, _der(0x30, bytes.fromhex("0603551d11"), _der(0x04, names))))
    serial = _der(0x02, b"\x01" + rng.randbytes(8))
    version = _der(0xA0, _der(0x02, b"\x02"))
    body = _der(0x30, version, serial, ecdsa, name("Penstock Test CA"), times, name(host), key, alternative)
    parts = [_der(0x02, b"\x01" + rng.randbytes(31)) for _ in range(2)]
    return _der(0x30, body, ecdsa, _der(0x03, b"\0" + _der(0x30, *parts)))


def _opened_12(writer: Writer, c: int, host: str, rng: random.Random) -> None:
    hello = client_hello(host, ("h2", "http/1.1"), is_13=False)
    writer.say(c, TO_SERVER, record(_HANDSHAKE, hello, 0x0301))
    chain = sized(3, sized(3, raw(certificate(host, rng))))
    exchange = raw(b"\x03" + u16(0x001D) + b"\x20") + _server_random(32) + raw(u16(0x0403))
    exchange += sized(2, raw(rng.randbytes(70)))
    answer = server_hello("h2", is_13=False) + handshake(11, chain)
    answer += handshake(12, exchange) + handshake(14, raw(b""))
    writer.say(c, TO_CLIENT, record(_HANDSHAKE, answer))
    ready = record(_CIPHER_SPEC, raw(b"\x01")) + record(_HANDSHAKE, raw(rng.randbytes(40)))
    key = record(_HANDSHAKE, handshake(16, raw(b"\x20") + _client_random(32)))
    writer.say(c, TO_SERVER, key + ready)
    writer.say(c, TO_CLIENT, ready)


def _opened_13(writer: Writer, c: int, host: str, rng: random.Random) -> None:
    hello = client_hello(host, ("h2", "http/1.1"), is_13=True)
    writer.say(c, TO_SERVER, record(_HANDSHAKE, hello, 0x0301))
    ready = record(_CIPHER_SPEC, raw(b"\x01"))
    answer = record(_HANDSHAKE, server_hello("h2", is_13=True)) + ready
    writer.say(c, TO_CLIENT, answer + data(1100, rng))
    writer.say(c, TO_SERVER, ready + data(58, rng))


def tls_script(host: str, size: int, rng: random.Random, *, is_13: bool) -> Script:
    """A client fetches something over TLS; ``size`` is what one segment of it carries."""
    writer = Writer("tls", host, round_trip_us=rng.randrange(8_000, 60_000))
    c = writer.tcp("TLS", 443)
    (_opened_13 if is_13 else _opened_12)(writer, c, host, rng)
    for _ in range(rng.randrange(1, 4)):
        writer.say(c, TO_SERVER, data(rng.randrange(60, 400), rng))
        for _ in range(rng.randrange(3, 9)):
            writer.say(c, TO_CLIENT, data(size, rng) + data(size, rng))
        writer.pause(rng.randrange(1_000, 80_000))
    writer.say(c, TO_SERVER, record(21, raw(rng.randbytes(26))))
    writer.close(c)
    return writer.script()
