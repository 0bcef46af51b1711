"""Kernels that draw exchanges: who, when, which script, and every number its packets need."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net.synth import _settings as s
from penstock.net.synth._mixing import below, mix, mix2
from penstock.net.synth.message import Register

_SCRIPT, _SUBSCRIBER, _START = int(Register.SCRIPT), int(Register.SUBSCRIBER), int(Register.START_US)
_HASH, _TUNNELLED, _VERSION = int(Register.HASH), int(Register.IS_TUNNELLED), int(Register.VERSION)
_SALT, _OTHER_SALT = int(Register.SALT), int(Register.OTHER_SALT)
_CLIENT_ISN, _SERVER_ISN = int(Register.CLIENT_ISN), int(Register.SERVER_ISN)
_CLIENT_IP, _SERVER_IP = int(Register.CLIENT_IP), int(Register.SERVER_IP)
_CLIENT_PORT, _SERVER_PORT = int(Register.CLIENT_PORT), int(Register.SERVER_PORT)
_CLIENT_MEDIA, _SERVER_MEDIA = int(Register.CLIENT_MEDIA_PORT), int(Register.SERVER_MEDIA_PORT)
_IMSI, _MSISDN, _NUMBER = int(Register.IMSI), int(Register.MSISDN), int(Register.NUMBER)
_TEID_UP, _TEID_DOWN = int(Register.TEID_UP), int(Register.TEID_DOWN)
_CONTROL_UP, _CONTROL_DOWN = int(Register.CONTROL_UP), int(Register.CONTROL_DOWN)
_AREA, _CELL, _SUBSCRIBER_IP = int(Register.AREA), int(Register.CELL), int(Register.SUBSCRIBER_IP)
_V6_HIGH, _V6_LOW = int(Register.V6_HIGH), int(Register.V6_LOW)
_SERVING_IP, _GATEWAY_IP = int(Register.SERVING_IP), int(Register.GATEWAY_IP)

FIRST_IMSI, FIRST_MSISDN, FIRST_AREA, CELLS_PER_AREA = 262_010_000_000_001, 491_700_000_001, 1000, 16
_OCTETS, _FIRST_OCTET = 156, 100  # 100 to 255: the octets of three digits
_CLIENTS_NET, _SERVERS_NET = 100, 120
_PORTS, _FIRST_PORT, _FARM = 50_000, 10_000, 1024
_SERVING_NODES, _GATEWAYS = 8, 2
_V6_CLIENTS = 0x2001_0DB8_0000_0000
_TEID_STEPS = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)  # odd: every subscriber has one of its own
_MOVE_SALT, _CELL_SALT, _KIND_SALT, _V6_SALT = 0x5EED_01, 0x5EED_02, 0x5EED_03, 0x5EED_04
CREATE, MOVE, DELETE = range(3)
_TWO_TO_53 = float(1 << 53)


@step
def _address(net: Any, index: Any) -> Any:
    """100.net….x.y with all octets from 100 to 255."""
    second = net + index // (_OCTETS * _OCTETS)
    third = _FIRST_OCTET + index // _OCTETS % _OCTETS
    return 100 << 24 | second << 16 | third << 8 | (_FIRST_OCTET + index % _OCTETS)


@step
def move_us(settings: Column, subscriber: Any, window: Any) -> Any:
    """When in a window a subscriber moves to another cell."""
    bits = mix2(settings[s.SEED] ^ _MOVE_SALT, subscriber * 65_537 + window)
    return below(bits, settings[s.WINDOW_US])


@step
def cell_at(settings: Column, subscriber: Any, time_us: Any) -> Any:
    """The cell of a subscriber at a time, from nothing but these."""
    stay, moves = settings[s.STAY_WINDOWS], np.int64(0)
    if stay:
        since = time_us - settings[s.USERS_BEGIN_US]
        window = max(np.int64(0), since // settings[s.WINDOW_US])
        moves = (window + subscriber) // stay
        if window > 0 and (window + subscriber) % stay == 0:
            begun = since - window * settings[s.WINDOW_US]
            moves -= begun < move_us(settings, subscriber, window)
    return below(mix2(settings[s.SEED] ^ _CELL_SALT, subscriber * 65_537 + moves), settings[s.CELLS])


@step
def uses_version_1(settings: Column, subscriber: Any) -> Any:
    """Whether a subscriber's sessions are PDP contexts."""
    return below(mix2(settings[s.SEED] ^ _KIND_SALT, subscriber), s.WHOLE) < settings[s.VERSION_1_RATIO]


@step
def _describe(row: Column, settings: Column, subscriber: Any, time_us: Any) -> None:
    """All that depends on the subscriber."""
    row[_SUBSCRIBER] = subscriber
    row[_IMSI], row[_MSISDN] = FIRST_IMSI + subscriber, FIRST_MSISDN + subscriber
    row[_SUBSCRIBER_IP] = _address(_CLIENTS_NET, subscriber)
    row[_V6_HIGH] = _V6_CLIENTS | subscriber
    row[_V6_LOW] = np.int64(mix2(settings[s.SEED] ^ _V6_SALT, subscriber) >> np.uint64(1))
    row[_TEID_UP] = (subscriber + 1) * _TEID_STEPS[0] & 0xFFFFFFFF
    row[_TEID_DOWN] = (subscriber + 1) * _TEID_STEPS[1] & 0xFFFFFFFF
    row[_CONTROL_UP] = (subscriber + 1) * _TEID_STEPS[2] & 0xFFFFFFFF
    row[_CONTROL_DOWN] = (subscriber + 1) * _TEID_STEPS[3] & 0xFFFFFFFF
    row[_SERVING_IP] = 10 << 24 | 1 << 16 | (1 + subscriber % _SERVING_NODES)
    row[_GATEWAY_IP] = 10 << 24 | 2 << 16 | (1 + subscriber % _GATEWAYS)
    cell = cell_at(settings, subscriber, time_us)
    row[_AREA], row[_CELL] = FIRST_AREA + cell // CELLS_PER_AREA, cell + 1


@bounded("out.shape == (len(subscribers), len(Register))")
@kernel
def describe(settings: Column, subscribers: Column, time_us: int, out: Column) -> None:
    """The registers of subscribers, for the truth."""
    for i in range(len(subscribers)):
        _describe(out[i], settings, subscribers[i], time_us)


@bounded("out.shape[1] == len(Register) and len(cumulative) == len(only_ipv4) and cumulative[-1] == 1")
@kernel
def draw_users(
    settings: Column,
    first: int,
    begin_us: int,
    span_us: int,
    cumulative: Column,
    only_ipv4: Column,
    out: Column,
) -> None:
    """Exchanges of subscribers that begin in a window; ``first`` is the number of the first in all."""
    for i in range(out.shape[0]):
        row, n = out[i], first + i
        h = mix2(settings[s.SEED], n)
        # In order of time, so that exchanges that go on together lie together in memory.
        jitter = np.float64(mix(h + np.uint64(1)) >> np.uint64(11)) / _TWO_TO_53
        when = begin_us + np.int64((i + jitter) * span_us / out.shape[0])
        share = np.float64(mix(h + np.uint64(2)) >> np.uint64(11)) / _TWO_TO_53
        script = np.int64(np.searchsorted(cumulative, share, side="right"))
        even = np.float64(mix(h + np.uint64(3)) >> np.uint64(11)) / _TWO_TO_53
        # Some subscribers do much, most do little.
        subscriber = np.int64(even * even * settings[s.SUBSCRIBERS])
        _describe(row, settings, subscriber, when)
        row[_SCRIPT], row[_START], row[_HASH] = script, when, np.int64(h >> np.uint64(1))
        row[_TUNNELLED] = settings[s.IS_GTP]
        six = below(mix(h + np.uint64(4)), s.WHOLE) < settings[s.IPV6_RATIO] and not only_ipv4[script]
        row[_VERSION] = 6 if six else 4
        row[_SALT] = np.int64(mix(h + np.uint64(5)) >> np.uint64(1))
        row[_OTHER_SALT] = np.int64(mix(h + np.uint64(6)) >> np.uint64(1))
        row[_CLIENT_ISN], row[_SERVER_ISN] = row[_SALT] & 0xFFFFFFFF, row[_OTHER_SALT] & 0xFFFFFFFF
        # Numbers in a row get ports in a row, then the next server of the farm: ends are not used again soon.
        row[_CLIENT_IP] = row[_SUBSCRIBER_IP]
        row[_SERVER_IP] = _address(_SERVERS_NET, script * _FARM + n // _PORTS % _FARM)
        row[_CLIENT_PORT] = _FIRST_PORT + n % _PORTS
        row[_CLIENT_MEDIA] = _FIRST_PORT + 2 * (n % (_PORTS // 2))
        row[_SERVER_MEDIA] = _FIRST_PORT + 2 * (n // (_PORTS // 2) % (_PORTS // 2))
        row[_SERVER_PORT], row[_NUMBER] = 0, n


@bounded("out.shape == (settings[s.SUBSCRIBERS], len(Register))")
@kernel
def draw_control(
    settings: Column, event: int, window: int, begin_us: int, port: int, events: int, out: Column
) -> int:
    """What the control plane does in a window: all sessions are created or deleted, or some move.

    ``window`` counts from the first with traffic. Returns how many.
    """
    n = 0
    for subscriber in range(settings[s.SUBSCRIBERS]):
        when = begin_us + subscriber * settings[s.WINDOW_US] // settings[s.SUBSCRIBERS]
        if event == MOVE:
            stay = settings[s.STAY_WINDOWS]
            if stay == 0 or window <= 0 or (window + subscriber) % stay:
                continue
            when = begin_us + move_us(settings, subscriber, window)
        row = out[n]
        row[:] = 0
        _describe(row, settings, subscriber, when)
        row[_SCRIPT] = event if uses_version_1(settings, subscriber) else events + event
        row[_START], row[_VERSION] = when, 4
        h = mix2(settings[s.SEED] + 1, subscriber * 65_537 + window)
        row[_HASH] = np.int64(h >> np.uint64(1))
        row[_CLIENT_IP], row[_SERVER_IP] = row[_SERVING_IP], row[_GATEWAY_IP]
        row[_CLIENT_PORT] = port
        row[_NUMBER] = subscriber * 3 + window * 7919 + event & 0xFFFF
        n += 1
    return n
