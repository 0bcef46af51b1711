"""Whether and when to start again after a failure. Pure: incidents in, a decision out."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.control.incidents import Incident, Kind, since_progress
from penstock.errors import (
    Fenced,
    MissingExtra,
    NdpiUnusable,
    RunDirectoryBroken,
    RunDirectoryInUse,
    RunDirectoryMismatch,
    SecretUnusable,
    SinkRefused,
    SinkUnavailable,
    SourceUnavailable,
    TopologyError,
    UserCodeError,
    VersionNotLoadable,
)

_FINAL = (
    Fenced,
    MissingExtra,
    NdpiUnusable,
    RunDirectoryBroken,
    RunDirectoryInUse,
    RunDirectoryMismatch,
    SecretUnusable,
    SinkRefused,
    TopologyError,
    VersionNotLoadable,
)
_AWAY = (SinkUnavailable, SourceUnavailable)
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))
_LONGEST_TRY_S = 120.0
"""More than this between two incidents is not time that passed, but a clock that was set."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How hard to try. A count begins anew with every committed epoch."""

    attempts: int = 5
    """Deaths at the same epoch before it is taken for a cause that stays."""
    code_attempts: int = 3
    """The same for failures of the user's code, which mostly fails again."""
    first_wait_s: float = 0.2
    longest_wait_s: float = 30.0
    patience_s: float = 3600.0
    """How long something may be away: a sink, a source, room on the disk."""
    first_patience_s: float = 30.0
    """The same before the first epoch, when a mistake in a path or an address is the likelier cause."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Start again after a while, or not."""

    wait_s: float | None
    why: str

    @property
    def action(self) -> str:
        """For the log of incidents."""
        return self.why if self.wait_s is None else f"{self.why}; starting again in {self.wait_s:.1f} s"


def is_full(text: str) -> bool:
    """Whether a message speaks of a disk without room."""
    return any(words in text for words in _FULL)


def kind_of(error: BaseException) -> Kind:
    """What sort of failure an exception stands for."""
    if isinstance(error, _FINAL):
        return "final"
    if isinstance(error, _AWAY) or is_full(str(error)):
        return "away"
    return "code" if isinstance(error, UserCodeError) else "death"


def decide(policy: RestartPolicy, before: Sequence[Incident], newest: Incident) -> Decision:
    """What to do about the newest incident, given those before it."""
    row = [incident for incident in since_progress([*before, newest]) if incident.kind == newest.kind]
    tried = len(row)
    wait = min(policy.longest_wait_s, policy.first_wait_s * 2 ** (tried - 1))
    if newest.kind == "final":
        return Decision(None, "it cannot go on")
    if newest.kind == "away":
        gaps = ((later.at_ns - earlier.at_ns) / 1e9 for earlier, later in pairwise(row))
        away_s = sum(min(max(0.0, gap), _LONGEST_TRY_S) for gap in gaps)
        patience_s = policy.patience_s if newest.epoch > 0 else policy.first_patience_s
        if away_s > patience_s:
            return Decision(None, f"it was away for {away_s:.0f} s, longer than is waited for")
        return Decision(wait, f"waiting for it, {away_s:.0f} s so far")
    allowed = policy.code_attempts if newest.kind == "code" else policy.attempts
    if tried >= allowed:
        return Decision(None, f"epoch {newest.epoch} failed {tried} times in a row")
    return Decision(wait, f"failure {tried} of {allowed} at epoch {newest.epoch}")
