"""All scripts of a traffic as arrays that kernels read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.errors import BadArgument
from penstock.net.synth.control import EVENTS, control_script
from penstock.net.synth.mail import imap_script, smtp_script
from penstock.net.synth.quic import quic_script
from penstock.net.synth.script import TCP, Script
from penstock.net.synth.tls import tls_script
from penstock.net.synth.traffic import APPLICATIONS, Traffic
from penstock.net.synth.voice import messenger_script, sip_script
from penstock.net.synth.web import dns_script, http_script

Table = npt.NDArray[np.int64]
HOSTS = (
    "www.wikipedia.org", "www.youtube.com", "www.netflix.com", "github.com", "www.facebook.com",
    "open.spotify.com", "web.whatsapp.com", "www.example.com",
)  # fmt: skip
# Columns of a step.
(
    CONVERSATION, DIRECTION, TIME_US, FLAGS, SEQ, ACK, OPTION_BYTES, PROTOCOL, PLACE, LENGTH, SUM,
    FIRST_PATCH, PATCHES, SERVER_PORT,
) = range(14)  # fmt: skip
_STEP_COLUMNS = 14
_USUAL_BYTES, _LEAST_BYTES, _MOST_BYTES = 900, 30, 1_330
_TCP_ETHERNET, _UDP_ETHERNET, _TUNNEL, _MORE_IPV6 = 54, 42, 36, 20
CONTROL_SCRIPTS = 2 * len(EVENTS)
MOST_DATA = 1_400


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Scripts, those of the control plane first.

    ``begins`` is where each one's steps lie; ``cumulative`` are the chances that it or one before is drawn.
    """

    scripts: tuple[Script, ...]
    begins: Table
    steps: Table
    patches: Table
    arena: npt.NDArray[np.uint8]
    only_ipv4: Table
    cumulative: npt.NDArray[np.float64]
    mean_packets: float
    longest_us: int


@lru_cache(maxsize=4)
def catalogue_of(traffic: Traffic) -> Catalogue:
    """The catalogue for a traffic: sizes as its mean asks for, pauses as its number of flows does."""
    size = _USUAL_BYTES
    if traffic.mean_bytes is not None:
        size = _size_for(traffic, traffic.mean_bytes)
    users = user_scripts(traffic.seed, size)
    control = [control_script(event, version) for version in (1, 2) for event in EVENTS]
    weights = _weights(traffic, users)
    mean_packets = float(sum(w * len(s.steps) for w, s in zip(weights, users, strict=True)))
    if traffic.concurrent_flows is not None:
        flows = sum(w * len(s.conversations) for w, s in zip(weights, users, strict=True))
        begin_per_us = traffic.rate / 1e6 / mean_packets * flows
        users = [_lasting(script, round(traffic.concurrent_flows / begin_per_us)) for script in users]
    longest = max(s.duration_us for s, w in zip(users, weights, strict=True) if w)
    cumulative = np.cumsum([0.0] * CONTROL_SCRIPTS + list(weights))
    cumulative[-1] = 1.0
    scripts = (*control, *users)
    begins, steps, patches, arena = _arrays(scripts)
    only_ipv4 = np.array([script.only_ipv4 for script in scripts], np.int64)
    return Catalogue(scripts, begins, steps, patches, arena, only_ipv4, cumulative, mean_packets, longest)


def _lasting(script: Script, duration_us: int) -> Script:
    """The script slowed down or hurried to last so long."""
    ratio = duration_us / max(script.duration_us, 1)
    steps = tuple(replace(step, time_us=int(step.time_us * ratio)) for step in script.steps)
    return replace(script, steps=steps)


def user_scripts(seed: int, size: int) -> list[Script]:
    """Some scripts of every application; ``size`` is about what a packet of bulk data carries."""
    rng = random.Random(seed)
    made: list[Script] = []
    for i, host in enumerate(HOSTS):
        near = min(_MOST_BYTES, max(_LEAST_BYTES, size + (i % 2 * 2 - 1) * (i // 2 + 1) * size // 40))
        made += [dns_script(host, rng), http_script(host, near, rng)]
        made += [tls_script(host, near // 2, rng, is_13=is_13) for is_13 in (False, True)]
        made.append(quic_script(host, near, rng))
    for i, host in enumerate(("voip.example.net", "sip.example.org", "ims.example.com")):
        made.append(sip_script(host, 40 + 30 * i, rng))
        made.append(messenger_script(f"turn.{host}", 60 + 20 * i, rng))
        made += [smtp_script(f"mx.{host}", size, rng), imap_script(f"imap.{host}", size, rng)]
    return made


def _weights(traffic: Traffic, scripts: list[Script]) -> list[float]:
    """How often each is drawn, so that the applications get their shares of the packets."""
    shares = traffic.mix.shares()
    packets = {name: sum(len(s.steps) for s in scripts if s.application == name) for name in APPLICATIONS}
    raw = [shares[s.application] / packets[s.application] for s in scripts]
    return [value / sum(raw) for value in raw]


def _size_for(traffic: Traffic, mean_bytes: float) -> int:
    """The size of bulk data with which the mean is reached; it grows linearly."""
    least, most = (_mean(traffic, size) for size in (_LEAST_BYTES, _MOST_BYTES))
    if not least <= mean_bytes <= most:
        allowed = f"{least:.0f} to {most:.0f} with this mix"
        raise BadArgument(where="Traffic", what="mean_bytes", got=repr(mean_bytes), allowed=allowed)
    low, high = _LEAST_BYTES, _MOST_BYTES
    for _ in range(4):
        size = round(low + (mean_bytes - least) / max(most - least, 1e-9) * (high - low))
        found = _mean(traffic, size)
        if abs(found - mean_bytes) < 1 or not low < size < high:
            break
        if found < mean_bytes:
            low, least = size, found
        else:
            high, most = size, found
    return size


def _mean(traffic: Traffic, size: int) -> float:
    scripts = user_scripts(traffic.seed, size)
    total = packets = 0.0
    for weight, script in zip(_weights(traffic, scripts), scripts, strict=True):
        more = _TUNNEL * (traffic.tunnel == "gtp") + _MORE_IPV6 * traffic.ipv6 * (not script.only_ipv4)
        kinds = [_TCP_ETHERNET if c.protocol == TCP else _UDP_ETHERNET for c in script.conversations]
        total += weight * sum(kinds[s.conversation] + more + len(s.message) for s in script.steps)
        packets += weight * len(script.steps)
    return total / packets


def _arrays(
    scripts: Sequence[Script],
) -> tuple[Table, Table, Table, npt.NDArray[np.uint8]]:
    begins, steps, patches, arena = [0], list[list[int]](), list[list[int]](), bytearray()
    known: dict[bytes, int] = {}
    for script in scripts:
        for step in script.steps:
            data, spoken = step.message.data, script.conversations[step.conversation]
            assert len(data) <= MOST_DATA, "kernels leave room for no more"
            if data not in known:
                known[data] = len(arena)
                arena += data
            added = [[p.at, p.fill, p.register, p.width] for p in step.message.patches]
            steps.append([
                step.conversation, step.direction, step.time_us, step.flags, step.seq, step.ack,
                step.option_bytes, spoken.protocol, known[data], len(data), _word_sum(data), len(patches),
                len(added), spoken.port,
            ])  # fmt: skip
            patches += added
        begins.append(len(steps))
    return (
        np.array(begins, np.int64),
        np.array(steps, np.int64).reshape(-1, _STEP_COLUMNS),
        np.array(patches, np.int64).reshape(-1, 4),
        np.frombuffer(bytes(arena), np.uint8),
    )


def _word_sum(data: bytes) -> int:
    padded = data + bytes(len(data) % 2)
    return int(np.frombuffer(padded, ">u2").sum(dtype=np.int64))
