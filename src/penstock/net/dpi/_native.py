"""Calls to C from compiled loops, by address: the loop stays cached although addresses change."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from penstock.net.dpi.abi import RESULT_BYTES, WORD_BYTES

_RESULT = ir.ArrayType(ir.IntType(64), RESULT_BYTES // WORD_BYTES)


@intrinsic
def _call(context: Any, address: Any, arguments: Any) -> Any:
    """Call a C function with integers and pointers, all given as int64; returns what it leaves as one.

    Only for functions without structs and floats in their signature. Of a result narrower than 64 bits
    the upper bits are garbage.
    """
    signature = types.int64(types.int64, arguments)

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        given = [builder.extract_value(values[1], k) for k in range(len(arguments))]
        kind = ir.FunctionType(word, [word] * len(given))
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)

    return signature, build


@intrinsic
def _call_for_struct(context: Any, address: Any, out: Any, arguments: Any) -> Any:
    """Call a C function with integers and pointers that returns a struct of RESULT_BYTES bytes.

    Where a struct of more than two words goes differs from processor to processor; the compiler knows.
    """
    signature = types.void(types.int64, types.int64, arguments)

    def build(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        word, struct = ir.IntType(64), _RESULT.as_pointer()
        given = [builder.extract_value(values[2], k) for k in range(len(arguments))]
        kind = ir.FunctionType(ir.VoidType(), [struct, *([word] * len(given))])
        function = builder.inttoptr(values[0], kind.as_pointer())
        builder.call(function, [builder.inttoptr(values[1], struct), *given], arg_attrs={0: ("sret",)})
        return context.get_dummy_value()

    return signature, build


@intrinsic
def _as_pointer(context: Any, address: Any) -> Any:
    """An address as a pointer, for ``numba.carray``."""

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), build


# numba puts the types of a call together itself.
call: Any = _call
call_for_struct: Any = _call_for_struct
as_pointer: Any = _as_pointer
