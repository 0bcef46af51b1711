"""The one way in which Penstock compiles: cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])
Column: TypeAlias = npt.NDArray[Any]


def kernel(function: F) -> F:
    """Compile a loop over columns."""
    return cast(F, njit(cache=True, nogil=True)(function))


def step(function: F) -> F:
    """Compile a step of a loop; LLVM puts it into the loop.

    A step that is taken every time should return what it counts instead of writing it to an array:
    measured 3 ns instead of 18 ns per event in `KeyedTable.add`.
    """
    return cast(F, njit(cache=True, nogil=True)(function))


def readonly(array: Column) -> Column:
    """A view that numba sees as one type, whether Polars, Arrow or NumPy owns the memory."""
    if not array.flags.aligned or not array.flags.c_contiguous:
        array = np.array(array)
    view = array.view()
    view.flags.writeable = False
    return view
