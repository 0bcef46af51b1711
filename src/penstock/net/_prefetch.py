"""Tells the processor which bytes will be read soon, so that it fetches them from memory meanwhile.

Packets lie hundreds of bytes apart, which no processor foresees: going from record to record through packets
of 500 bytes took 135 to 208 ns each, and 35 to 91 with this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from penstock.frames._jit import Column, step

_LINE = 64
_AHEAD = 1024
"""Bytes that are on their way: more makes it no faster."""
PACKETS_AHEAD = 8
"""The same for packets whose places are known."""


def _without_compiler(data: Column, at: Any) -> None:
    """What `fetch` is where nothing is compiled."""


def _fetch(_: Any, data: Any, at: Any) -> Any:
    """The types of a call, and what puts the processor's own instruction in its place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, shape, "llvm.prefetch.p0i8")
        builder.call(function, [place, number(0), number(3), number(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(data, at), generate


_config: Any = config
fetch: Any = _without_compiler if _config.DISABLE_JIT else intrinsic(_fetch)
"""Have the line with this byte fetched; a place outside of the array does no harm."""


@step
def sweep(data: Column, done: Any, at: Any) -> Any:
    """Have what lies before a reader at ``at`` fetched, from ``done`` on; returns how far that was."""
    end = at + _AHEAD
    if done < at:
        done = at
    while done < end:
        fetch(data, np.int64(done))
        done += _LINE
    return done


@step
def fetch_head(data: Column, at: Any) -> None:
    """Have the first bytes of a packet fetched, where its headers are."""
    fetch(data, np.int64(at))
    fetch(data, np.int64(at + _LINE))
