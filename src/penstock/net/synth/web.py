"""DNS questions with their answers, and HTTP/1.1."""

from __future__ import annotations

import random

from penstock.net.synth.message import Message, Register, number, raw, text, u16
from penstock.net.synth.script import TO_CLIENT, TO_SERVER, Script, Writer

_A, _AAAA, _IN = 1, 28, 1
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36",
)


def _name(host: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in host.split(".")) + b"\0"


def dns_script(host: str, rng: random.Random) -> Script:
    """A question for a host's addresses, and an answer with two of them."""
    kind = rng.choice((_A, _A, _AAAA))
    writer = Writer("dns", host, round_trip_us=rng.randrange(2_000, 40_000))
    c = writer.udp("DNS", 53)
    question = raw(_name(host) + u16(kind, _IN))
    identity = number(2, Register.SALT)
    writer.say(c, TO_SERVER, identity + raw(u16(0x0100, 1, 0, 0, 0)) + question)
    answer = identity + raw(u16(0x8180, 1, 2, 0, 0)) + question
    for last in (1, 2):
        answer += raw(u16(0xC00C, kind, _IN, 0, rng.randrange(60, 3600))) + _address(kind, last)
    writer.say(c, TO_CLIENT, answer)
    return writer.script()


def _address(kind: int, last: int) -> Message:
    if kind == _A:
        return raw(u16(4)) + number(4, Register.OTHER_SALT, last)
    return raw(u16(16) + bytes.fromhex("20010db8") + bytes(8)) + number(4, Register.OTHER_SALT, last)


def http_script(host: str, size: int, rng: random.Random) -> Script:
    """A client fetches some pages over one connection; ``size`` is what one segment carries."""
    writer = Writer("http", host, round_trip_us=rng.randrange(8_000, 60_000))
    c = writer.tcp("HTTP", 80)
    for page in range(rng.randrange(1, 4)):
        method, body = ("POST", "name=penstock&value=1") if page == 2 else ("GET", "")
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        request = f"{method} /page/{page}/{rng.randrange(1000)}.html HTTP/1.1\r\nHost: {host}\r\n"
        request += f"User-Agent: {rng.choice(_AGENTS)}\r\nAccept: text/html,*/*;q=0.8\r\n{length}\r\n{body}"
        writer.say(c, TO_SERVER, text(request))
        segments = rng.randrange(4, 14)
        head = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\n"
        writer.say(c, TO_CLIENT, text(f"{head}Content-Length: {segments * size}\r\n\r\n"))
        for i in range(segments):
            writer.say(c, TO_CLIENT, raw(_html(size, rng)))
            if i % 2:
                writer.acknowledge(c, TO_SERVER)
        writer.pause(rng.randrange(1_000, 80_000))
    writer.close(c)
    return writer.script()


def _html(size: int, rng: random.Random) -> bytes:
    words = " ".join(f"<p>{rng.randrange(10**9):09d}</p>" for _ in range(size // 17 + 1))
    return words.encode()[:size]
