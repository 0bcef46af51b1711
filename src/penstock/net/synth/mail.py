"""Mail: SMTP on its way out, IMAP on its way in."""

from __future__ import annotations

import base64
import random

from penstock.net.synth.message import raw, text
from penstock.net.synth.script import TO_CLIENT, TO_SERVER, Script, Writer


def _body(count: int, size: int, rng: random.Random) -> bytes:
    """Lines of an attachment, ``count`` segments long."""
    encoded = base64.b64encode(rng.randbytes(count * size * 3 // 4 + 64))
    lines = b"\r\n".join(encoded[i : i + 76] for i in range(0, len(encoded), 76))
    return lines[: count * size - 2] + b"\r\n"


def smtp_script(host: str, size: int, rng: random.Random) -> Script:
    """A client submits a mail; ``size`` is what one segment of it carries."""
    writer = Writer("mail", host, round_trip_us=rng.randrange(8_000, 60_000))
    c = writer.tcp("SMTP", 25)
    writer.say(c, TO_CLIENT, text(f"220 {host} ESMTP ready\r\n"))
    dialogue = (
        ("EHLO client.example\r\n", f"250-{host}\r\n250-SIZE 35882577\r\n250 8BITMIME\r\n"),
        ("MAIL FROM:<ann@client.example>\r\n", "250 2.1.0 Ok\r\n"),
        ("RCPT TO:<bob@server.example>\r\n", "250 2.1.5 Ok\r\n"),
        ("DATA\r\n", "354 End data with <CR><LF>.<CR><LF>\r\n"),
    )
    for question, answer in dialogue:
        writer.say(c, TO_SERVER, text(question))
        writer.say(c, TO_CLIENT, text(answer))
    head = "From: ann@client.example\r\nTo: bob@server.example\r\nSubject: report\r\nMIME-Version: 1.0\r\n"
    writer.say(c, TO_SERVER, text(f"{head}Content-Transfer-Encoding: base64\r\n\r\n"))
    for i in range(rng.randrange(4, 12)):
        writer.say(c, TO_SERVER, raw(_body(1, size, rng)))
        if i % 2:
            writer.acknowledge(c, TO_CLIENT)
    writer.say(c, TO_SERVER, text("\r\n.\r\n"))
    writer.say(c, TO_CLIENT, text("250 2.0.0 Ok: queued as 7A3B1\r\n"))
    writer.say(c, TO_SERVER, text("QUIT\r\n"))
    writer.say(c, TO_CLIENT, text("221 2.0.0 Bye\r\n"))
    writer.close(c)
    return writer.script()


def imap_script(host: str, size: int, rng: random.Random) -> Script:
    """A client reads its newest mail; ``size`` is what one segment of it carries."""
    writer = Writer("mail", host, round_trip_us=rng.randrange(8_000, 60_000))
    c = writer.tcp("IMAP", 143)
    writer.say(c, TO_CLIENT, text("* OK [CAPABILITY IMAP4rev1 SASL-IR LOGIN-REFERRALS ID ENABLE] ready.\r\n"))
    dialogue = (
        ("a1 CAPABILITY\r\n", "* CAPABILITY IMAP4rev1 IDLE NAMESPACE\r\na1 OK Capability completed.\r\n"),
        ("a2 LOGIN bob secret\r\n", "a2 OK [CAPABILITY IMAP4rev1 IDLE] Logged in\r\n"),
        (
            "a3 SELECT INBOX\r\n",
            "* FLAGS (\\Seen)\r\n* 12 EXISTS\r\na3 OK [READ-WRITE] Select completed.\r\n",
        ),
    )
    for question, answer in dialogue:
        writer.say(c, TO_SERVER, text(question))
        writer.say(c, TO_CLIENT, text(answer))
    segments = rng.randrange(4, 12)
    writer.say(c, TO_SERVER, text("a4 FETCH 12 BODY[]\r\n"))
    writer.say(c, TO_CLIENT, text(f"* 12 FETCH (BODY[] {{{segments * size}}}\r\n"))
    for i in range(segments):
        writer.say(c, TO_CLIENT, raw(_body(1, size, rng)))
        if i % 2:
            writer.acknowledge(c, TO_SERVER)
    writer.say(c, TO_CLIENT, text(")\r\na4 OK Fetch completed.\r\n"))
    writer.say(c, TO_SERVER, text("a5 LOGOUT\r\n"))
    writer.say(c, TO_CLIENT, text("* BYE Logging out\r\na5 OK Logout completed.\r\n"))
    writer.close(c)
    return writer.script()
