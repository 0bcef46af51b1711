"""Traffic that is made: real protocol exchanges, repeatable by seed, with known truth."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.net.synth.traffic import APPLICATIONS, Mix, Traffic

if TYPE_CHECKING:
    from penstock.net.synth.headers import HeaderTruth, write_headers
    from penstock.net.synth.source import Source
    from penstock.net.synth.truth import Truth
    from penstock.net.synth.writing import write

__all__ = ["APPLICATIONS", "HeaderTruth", "Mix", "Source", "Traffic", "Truth", "write", "write_headers"]
# Loaded when first used: describing a traffic needs neither Polars nor numba.
_LAZY = {
    "HeaderTruth": "penstock.net.synth.headers:HeaderTruth",
    "Source": "penstock.net.synth.source:Source",
    "Truth": "penstock.net.synth.truth:Truth",
    "write": "penstock.net.synth.writing:write",
    "write_headers": "penstock.net.synth.headers:write_headers",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock.net.synth' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
