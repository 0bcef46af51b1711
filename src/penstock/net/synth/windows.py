"""Traffic cut into windows of time, each a pure function of the traffic and its number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.errors import BadArgument
from penstock.net.synth import _settings as s
from penstock.net.synth._draw import CREATE, DELETE, MOVE, draw_control, draw_users
from penstock.net.synth._schedule import SLACK_US, schedule
from penstock.net.synth.catalogue import Catalogue, Table, catalogue_of
from penstock.net.synth.control import EVENTS, PORT
from penstock.net.synth.message import REGISTERS
from penstock.net.synth.traffic import Traffic


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The packets of one window in order: sorted keys, and what they point to.

    The exchanges are those of the control plane, then those begun in the window before, then its own.
    """

    begin_us: int
    keys: npt.NDArray[np.int64]
    packets: npt.NDArray[np.int64]
    exchanges: Table
    control: int
    earlier: int

    def __len__(self) -> int:
        return len(self.keys)

    def time_us(self, place: int) -> int:
        """The time of a packet, since the traffic's start."""
        return self.begin_us + int(self.keys[place] >> s.PLACE_BITS)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Where the windows of a traffic lie.

    A window is as long as the longest exchange can last, so that each exchange ends in the next window at
    the latest. With GTP there is one before the traffic, for sessions to begin, and one after, to end.
    """

    traffic: Traffic
    catalogue: Catalogue
    window_us: int
    before: int
    with_users: int

    @property
    def count(self) -> int:
        """How many windows there are; in the one after the users' the last exchanges end."""
        return self.before + self.with_users + 1 + self.before

    def settings(self, *, form: int = s.BARE, snap_bytes: int = 1 << 20) -> Table:
        """What kernels must know."""
        traffic, out = self.traffic, np.zeros(s.SETTINGS, np.int64)
        out[s.SEED], out[s.SUBSCRIBERS], out[s.CELLS] = traffic.seed, traffic.subscribers, traffic.cells
        out[s.IS_GTP] = traffic.tunnel == "gtp"
        ratios = {
            s.IPV6_RATIO: traffic.ipv6,
            s.VERSION_1_RATIO: traffic.gtp_version_1,
            s.LOSS: traffic.loss,
            s.DISORDER: traffic.disorder,
            s.RETRANSMISSION: traffic.retransmission,
            s.FRAGMENTS: traffic.fragments,
        }
        for place, ratio in ratios.items():
            out[place] = round(ratio * s.WHOLE)
        if traffic.stay_us is not None and traffic.tunnel == "gtp":
            out[s.STAY_WINDOWS] = max(1, round(traffic.stay_us / self.window_us))
        out[s.WINDOW_US], out[s.USERS_BEGIN_US] = self.window_us, self.before * self.window_us
        out[s.START_US], out[s.SNAP_BYTES], out[s.FORMAT] = traffic.start_us, snap_bytes, form
        return out

    def users(self, window: int) -> Table:
        """The exchanges that begin in a window; ``window`` counts from the first with traffic."""
        if not 0 <= window < self.with_users:
            return np.zeros((0, REGISTERS), np.int64)
        per_us = self.traffic.rate / 1e6 / self.catalogue.mean_packets
        begin = window * self.window_us
        end = min(begin + self.window_us, self.traffic.duration_us)
        first, last = int(per_us * begin), max(int(per_us * end), int(per_us * begin) + (window == 0))
        out = np.zeros((last - first, REGISTERS), np.int64)
        offset = self.before * self.window_us
        draw_users(
            self.settings(), first, offset + begin, end - begin, self.catalogue.cumulative,
            self.catalogue.only_ipv4, out,
        )  # fmt: skip
        return out

    def control(self, index: int) -> Table:
        """What the control plane does in a window."""
        if not self.before:
            return np.zeros((0, REGISTERS), np.int64)
        event = CREATE if index == 0 else DELETE if index == self.count - 1 else MOVE
        out = np.zeros((self.traffic.subscribers, REGISTERS), np.int64)
        begin = index * self.window_us
        n = draw_control(self.settings(), event, index - self.before, begin, PORT, len(EVENTS), out)
        return out[:n]


@lru_cache(maxsize=4)
def plan_of(traffic: Traffic) -> Plan:
    """The plan of a traffic."""
    catalogue = catalogue_of(traffic)
    window_us = catalogue.longest_us + SLACK_US
    packets = int(traffic.rate * window_us / 1e6)
    if window_us >= s.MOST_WINDOW_US or 2 * packets >= s.PLACE_MASK:
        got = f"exchanges of {window_us / 1e6:.0f} s with {packets} packets in that time"
        allowed = f"less than {s.MOST_WINDOW_US // 10**6} s and {s.PLACE_MASK // 2} packets"
        raise BadArgument(where="Traffic", what="concurrent_flows and rate", got=got, allowed=allowed)
    before = int(traffic.tunnel == "gtp")
    return Plan(traffic, catalogue, window_us, before, -(-traffic.duration_us // window_us))


@lru_cache(maxsize=2)
def window_of(traffic: Traffic, index: int) -> Window:
    """One window of a traffic. The last two are kept."""
    plan = plan_of(traffic)
    user_window = index - plan.before
    tables = [plan.control(index), plan.users(user_window - 1), plan.users(user_window)]
    exchanges, c = np.concatenate(tables), plan.catalogue
    lengths = np.diff(c.begins)[exchanges[:, 0]]
    room = 2 * int(lengths.sum())  # a packet is cut in two or sent twice, never both
    keys, packets = np.empty(room, np.int64), np.empty(room, np.int64)
    begin_us = index * plan.window_us
    n = schedule(
        exchanges, len(tables[0]), c.steps, c.begins, plan.settings(), begin_us,
        begin_us + plan.window_us, keys, packets,
    )  # fmt: skip
    keys = np.sort(keys[:n])
    control, earlier = len(tables[0]), len(tables[1])
    return Window(begin_us, keys, packets[:n], exchanges, control, control + earlier)
