"""Network analytics: captures, decoded packets and flows, as ordinary sources and operators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.net.addresses import ip_halves, ip_text
    from penstock.net.pcap import Pcap

__all__ = ["Pcap", "ip_halves", "ip_text"]
# Loaded when first used, as in `penstock` itself.
_LAZY = {
    "Pcap": "penstock.net.pcap:Pcap",
    "ip_halves": "penstock.net.addresses:ip_halves",
    "ip_text": "penstock.net.addresses:ip_text",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock.net' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
