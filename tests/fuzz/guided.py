"""The guided phase: libFuzzer (atheris) mutates captures and keeps those that reach something new.

Run by ``python -m tests.fuzz``, with numba switched off: the kernels then are Python that atheris can
see into, and reading behind an array's end raises instead of giving bytes of something else. NumPy takes an
index below 0 for one from the end: only the phases with compiled kernels refuse it (see `tests.bounds`).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from typing import Any

import atheris

with atheris.instrument_imports(include=["penstock.net"]):
    from penstock import net
    from penstock.net import _bytes, _network
    from tests.fuzz.whole_path import follow

    # Most modules are imported when they are used, which would be too late.
    for _module in pkgutil.walk_packages(net.__path__, "penstock.net."):
        if not _module.name.startswith("penstock.net.synth"):
            importlib.import_module(_module.name)


def _wrapped_be64(data: Any, at: int) -> int:
    """Eight bytes as numba takes them: the upper half of the numbers is negative."""
    return int.from_bytes(bytes(data[at : at + 8]), "big", signed=True)


def one_input(data: bytes) -> None:
    """What libFuzzer calls."""
    follow([data], ("builtin",), tail=len(data) % 3)  # halves, or a small end that meets all the rest


def main() -> None:
    """Fuzz with libFuzzer's own arguments."""
    assert _network.be64 is _bytes.be64
    _network.be64 = _wrapped_be64
    warnings.simplefilter("ignore", RuntimeWarning)  # numbers that wrap are meant to
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
