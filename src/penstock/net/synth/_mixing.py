"""Numbers that look random and depend on nothing but their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import step

_STEP, _A, _B = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@step
def mix(value: Any) -> Any:
    """Splitmix64's finisher: 64 bits, each of which depends on each bit of the value."""
    z = np.uint64(value) + np.uint64(_STEP)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_A)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_B)
    return z ^ (z >> np.uint64(31))


@step
def mix2(value: Any, other: Any) -> Any:
    """A mixture of two numbers."""
    return mix(mix(value) ^ np.uint64(other))


@step
def below(bits: Any, limit: Any) -> Any:
    """A number from 0 to limit-1 out of the upper half of mixed bits."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))
