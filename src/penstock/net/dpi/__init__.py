"""Deep packet inspection: what application a flow belongs to, from its first packets.

`engine` gives nDPI where it is installed (``pip install 'penstock[dpi]'``), else the built-in engine.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from penstock.net.dpi.verdict import Engine

__all__ = ["engine"]
Choice = Literal["best", "ndpi", "builtin"]
_log = logging.getLogger("penstock.net.dpi")


@lru_cache(maxsize=4)
def engine(choice: Choice = "best") -> Engine:
    """The engine to judge flows with, one per process; its ``name`` says which it is, and so does the log.

    ``best``: nDPI if it is there and answers as it should, else the built-in one. ``ndpi`` insists: raises
    NdpiUnusable with the reason.
    """
    found = _engine(choice)
    _log.info("flows are judged by %s", found.name)
    return found


def _engine(choice: Choice) -> Engine:
    from penstock.net.dpi.builtin import Builtin

    if choice == "builtin":
        return Builtin()
    from penstock.errors import NdpiUnusable
    from penstock.net.dpi.ndpi import Ndpi

    try:
        return Ndpi()
    except NdpiUnusable as reason:
        if choice == "ndpi":
            raise
        _log.warning("nDPI cannot be used, the built-in engine judges: %s", reason)
        return Builtin()
