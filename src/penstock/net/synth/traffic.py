"""What is generated, as one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument

MOST_SUBSCRIBERS = 20 * 156 * 156
"""Addresses of subscribers have octets of three digits, so that texts that name them have one length."""
MOST_CELLS = 60_000
MOST_SEED = (1 << 62) - 1
Tunnel = Literal["none", "gtp"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the applications among the packets; only their proportions count.

    ``sip`` is a call with SIP and RTP, ``mail`` SMTP and IMAP, ``messenger`` a call over STUN and RTP.
    """

    dns: float = 3
    http: float = 12
    tls: float = 40
    quic: float = 25
    sip: float = 8
    mail: float = 4
    messenger: float = 8

    def __post_init__(self) -> None:
        values = self.shares()
        if any(not math.isfinite(v) or v < 0 for v in values.values()) or not sum(values.values()):
            raise _wrong("Mix", "shares", values, "numbers of at least 0, one of them above 0")

    def shares(self) -> dict[str, float]:
        """The share of each application as it was given."""
        return {f.name: float(getattr(self, f.name)) for f in fields(self)}


APPLICATIONS = tuple(f.name for f in fields(Mix))


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic of subscribers in cells: a pure description, the same packets whenever it is read.

    About ``rate`` packets per second begin for ``duration``; every exchange runs to its end. ``mean_bytes``
    is the mean length of a packet (None: what the protocols give). With ``concurrent_flows`` all exchanges
    last equally long, so that about so many flows go on at once as soon as the first ones end. ``ipv6``,
    ``loss`` (missing in the capture), ``disorder``, ``retransmission`` and ``fragments`` are ratios of what
    they can happen to; nothing happens to the control plane.

    ``tunnel="gtp"`` carries the packets in GTP-U and adds a control plane: sessions are created before the
    traffic, change the cell every ``stay`` (None: never) and are deleted after it; ``gtp_version_1`` is the
    ratio of subscribers with PDP contexts instead of sessions.
    """

    mix: Mix = field(default_factory=Mix)
    subscribers: int = 1_000
    cells: int = 50
    rate: float = 10_000
    duration: str | timedelta = "10s"
    mean_bytes: float | None = None
    concurrent_flows: int | None = None
    tunnel: Tunnel = "none"
    gtp_version_1: float = 0.3
    stay: str | timedelta | None = "60s"
    ipv6: float = 0.2
    loss: float = 0.0
    disorder: float = 0.0
    retransmission: float = 0.0
    fragments: float = 0.0
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    seed: int = 0

    def __post_init__(self) -> None:
        limits = (("subscribers", 1, MOST_SUBSCRIBERS), ("cells", 1, MOST_CELLS), ("seed", 0, MOST_SEED))
        for name, least, most in limits:
            value = getattr(self, name)
            if not least <= value <= most:
                raise _wrong("Traffic", name, value, f"a number from {least} to {most}")
        for name in ("ipv6", "loss", "disorder", "retransmission", "fragments", "gtp_version_1"):
            if not 0 <= getattr(self, name) <= 1:
                raise _wrong("Traffic", name, getattr(self, name), "a ratio from 0 to 1")
        for name in ("rate", "mean_bytes", "concurrent_flows"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise _wrong("Traffic", name, value, "a number above 0")
        if self.tunnel not in get_args(Tunnel):
            raise _wrong("Traffic", "tunnel", self.tunnel, ", ".join(get_args(Tunnel)))
        if self.duration_us <= 0 or self.stay_us == 0:
            raise _wrong("Traffic", "duration and stay", (self.duration, self.stay), "longer than 0")

    @property
    def duration_us(self) -> int:
        """For how long exchanges begin."""
        return microseconds(self.duration, where="Traffic", what="duration")

    @property
    def stay_us(self) -> int | None:
        """For how long a subscriber stays in a cell."""
        return None if self.stay is None else microseconds(self.stay, where="Traffic", what="stay")

    @property
    def start_us(self) -> int:
        """The time of the first window, in µs since 1970; a time without a zone means UTC."""
        aware = self.start if self.start.tzinfo else self.start.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)


def _wrong(where: str, what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where=where, what=what, got=repr(got), allowed=allowed)
