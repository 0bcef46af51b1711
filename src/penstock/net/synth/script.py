"""An exchange of messages as data: who says what, when, in which conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.net.synth.message import Message, raw

Direction = Literal[0, 1]
TO_SERVER: Direction = 0
TO_CLIENT: Direction = 1
TCP, UDP = 6, 17
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MEDIA = 0
"""The port of a conversation whose ports are drawn and named in another one."""
MSS = 1360
_SYN_OPTIONS = bytes([2, 4, MSS >> 8, MSS & 255, 4, 2, 1, 3, 3, 7, 1, 1])
MOST_CONVERSATIONS = 2


@dataclass(frozen=True, slots=True)
class Conversation:
    """One pair of ends. ``label`` is the protocol in it, ``port`` the server's, or MEDIA."""

    label: str
    protocol: int
    port: int


@dataclass(frozen=True, slots=True)
class Step:
    """One packet. ``seq`` and ``ack`` count from the initial numbers of their ends."""

    conversation: int
    direction: Direction
    time_us: int
    message: Message
    flags: int = 0
    seq: int = 0
    ack: int = 0
    option_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """A whole exchange; ``host`` is the name that the client asks for, if it does."""

    application: str
    host: str
    conversations: tuple[Conversation, ...]
    steps: tuple[Step, ...]
    only_ipv4: bool = False

    @property
    def duration_us(self) -> int:
        """From the first packet to the last."""
        return self.steps[-1].time_us


class Writer:
    """Writes a script: keeps the clock and TCP's numbers."""

    def __init__(self, application: str, host: str, *, round_trip_us: int = 20_000) -> None:
        self._application, self._host = application, host
        self._round_trip_us = round_trip_us
        self._conversations: list[Conversation] = []
        self._steps: list[Step] = []
        self._said: list[list[int]] = []
        self._speaker: list[Direction] = []
        self._time_us = 0

    def udp(self, label: str, port: int) -> int:
        """Begin a conversation over UDP."""
        return self._begin(Conversation(label, UDP, port))

    def tcp(self, label: str, port: int) -> int:
        """Begin a conversation over TCP, with its handshake."""
        c = self._begin(Conversation(label, TCP, port))
        self._packet(c, TO_SERVER, raw(_SYN_OPTIONS), SYN, option_bytes=len(_SYN_OPTIONS))
        self._packet(c, TO_CLIENT, raw(_SYN_OPTIONS), SYN | ACK, option_bytes=len(_SYN_OPTIONS))
        self._packet(c, TO_SERVER, raw(b""), ACK)
        return c

    def pause(self, time_us: int) -> None:
        """Let time pass."""
        self._time_us += time_us

    def say(self, conversation: int, direction: Direction, message: Message) -> None:
        """Send a message; over TCP in segments, every second of which is acknowledged."""
        if self._conversations[conversation].protocol == UDP:
            self._packet(conversation, direction, message, 0)
            return
        pieces = message.cut(MSS)
        for i, piece in enumerate(pieces):
            self._packet(conversation, direction, piece, ACK | (PSH if i + 1 == len(pieces) else 0))
            if i % 2:
                self.acknowledge(conversation, _other(direction))

    def say_at_once(self, conversation: int, direction: Direction, message: Message) -> None:
        """Send a datagram that answers nothing: it follows the last packet closely."""
        self._speaker[conversation] = direction
        self._packet(conversation, direction, message, 0)

    def acknowledge(self, conversation: int, direction: Direction) -> None:
        """Send nothing but an acknowledgement."""
        self._packet(conversation, direction, raw(b""), ACK)

    def close(self, conversation: int) -> None:
        """End a TCP conversation, the client first."""
        self._packet(conversation, TO_SERVER, raw(b""), FIN | ACK)
        self._packet(conversation, TO_CLIENT, raw(b""), FIN | ACK)
        self._packet(conversation, TO_SERVER, raw(b""), ACK)

    def script(self, *, only_ipv4: bool = False) -> Script:
        """What was written."""
        return Script(
            self._application, self._host, tuple(self._conversations), tuple(self._steps), only_ipv4
        )

    def _begin(self, conversation: Conversation) -> int:
        self._conversations.append(conversation)
        self._said.append([0, 0])
        self._speaker.append(TO_SERVER)
        assert len(self._conversations) <= MOST_CONVERSATIONS
        return len(self._conversations) - 1

    def _packet(
        self, c: int, direction: Direction, message: Message, flags: int, option_bytes: int = 0
    ) -> None:
        if self._steps:
            # An answer takes half a round trip; what one end says at once follows closely.
            self._time_us += self._round_trip_us // 2 if direction != self._speaker[c] else 120
        self._speaker[c] = direction
        said = self._said[c]
        ack = said[_other(direction)] if flags & ACK else 0
        step = Step(c, direction, self._time_us, message, flags, said[direction], ack, option_bytes)
        self._steps.append(step)
        said[direction] += len(message) - option_bytes + (1 if flags & (SYN | FIN) else 0)


def _other(direction: Direction) -> Direction:
    return TO_CLIENT if direction == TO_SERVER else TO_SERVER
