"""Pickle state that holds objects of the user's own classes, so that another Python can read it.

cloudpickle writes a class of a script as its byte code. State that was saved so cannot be read by another
Python minor, and its objects keep the methods of the day they were saved. Here a class or function of the
user's is a reference, which is looked up among what the operator's code refers to. The code goes along, for a
class that the operator no longer knows; it is used by the Python that wrote it and by no other.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
import types
from functools import lru_cache
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as _cloudpickle

from penstock.operators._user_world import World, world_of
from penstock.topology.fingerprint import is_library

_PYTHON = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
_FIRST_PYTHON = "cpython-3.11"
"""The Python that wrote code into states before this module tagged it: no other was supported then."""
_MOVED = {"pathlib._local": "pathlib"}
"""Where Python 3.13 had classes that earlier ones know by another module."""


_reading = threading.local()
"""The world of the operator whose state is being read, and the functions that were found in it."""


class CodeGone(LookupError):
    """State holds a class or function whose code is not to be had here."""


def dumps(state: Any, owner: Any) -> bytes:
    """Pickle a state; ``owner`` is the operator that it belongs to."""
    file = io.BytesIO()
    _Pickler(file, world_of(owner)).dump(state)
    return file.getvalue()


def loads(blob: bytes, owner: Any) -> Any:
    """Read the state that ``dumps`` or an earlier Penstock wrote. Raises CodeGone."""
    before = vars(_reading).copy()
    _reading.world, _reading.found = world_of(owner), []
    try:
        return _Unpickler(io.BytesIO(blob)).load()
    finally:
        vars(_reading).update(before)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes references to the user's code, and Polars' frames as Arrow."""

    def __init__(self, file: io.BytesIO, world: World) -> None:
        super().__init__(file, protocol=5)
        self._world = world

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            if self._world.classes.get((obj.__module__, obj.__name__)) is obj:
                return _class_again, (obj.__module__, obj.__name__, _PYTHON, _code_of(obj))
        elif isinstance(obj, types.FunctionType):
            if not is_library(obj.__module__) and (reference := self._reference(obj)):
                return reference
        elif isinstance(obj, types.CodeType):
            return _code_again, (_PYTHON, cloudpickle.dumps(obj), *_signature(obj))
        elif type(obj).__module__.startswith("polars.") and (reduced := _as_arrow(obj)):
            return reduced
        return super().reducer_override(obj)

    def _reference(self, function: types.FunctionType) -> Any:
        name = (function.__module__, function.__qualname__)
        if self._world.functions.get(name) is function:
            return _function_again, (*name, _PYTHON, cloudpickle.dumps(function))
        codes = [code for code, _ in self._world.codes.get(name, [])]
        if function.__code__ not in codes:
            return None
        reference = (*name, codes.index(function.__code__))
        captured = [cell.cell_contents for cell in function.__closure__ or ()]
        outside = dict(zip(function.__code__.co_freevars, captured, strict=True))
        parts = (function.__defaults__, function.__kwdefaults__, outside)
        return _inner_function_again, (reference, parts, _PYTHON, cloudpickle.dumps(function))


@lru_cache(maxsize=256)
def _code_of(cls: type) -> bytes:
    """Pickle a class with its code, for versions of the operator that no longer have the class."""
    return cloudpickle.dumps(cls)  # type: ignore[no-any-return]


def _as_arrow(value: Any) -> Any:
    """Reduce a frame or a series to an Arrow stream, which every Polars reads."""
    import polars as pl

    if not isinstance(value, pl.DataFrame | pl.Series):
        return None
    frame = value if isinstance(value, pl.DataFrame) else value.to_frame()
    if pl.Object in frame.dtypes:
        return None
    file = io.BytesIO()
    frame.rechunk().write_ipc_stream(file)
    return _frame_again, (isinstance(value, pl.Series), file.getvalue())


def _frame_again(is_series: bool, content: bytes) -> Any:  # noqa: FBT001 - called by pickle
    import polars as pl

    frame = pl.read_ipc_stream(content)
    return frame.to_series() if is_series else frame


def _class_again(module: str, name: str, python: str, code: bytes) -> Any:
    found = _reading.world.class_named(module, name)
    return found if found is not None else _from_code(f"class {module}:{name}", python, code)


def _function_again(module: str, name: str, python: str, code: bytes) -> Any:
    found = _reading.world.function_named(module, name)
    return found if found is not None else _from_code(f"function {module}:{name}", python, code)


def _inner_function_again(
    reference: tuple[str, str, int], parts: tuple[Any, Any, dict[str, Any]], python: str, code: bytes
) -> Any:
    defaults, keyword_defaults, outside = parts
    found = _reading.world.code(reference)
    if found is None or set(found[0].co_freevars) != outside.keys():
        return _from_code(f"function {reference[0]}:{reference[1]}", python, code)
    cells = tuple(types.CellType(outside[name]) for name in found[0].co_freevars)
    function = types.FunctionType(found[0], found[1], found[0].co_name, defaults, cells)
    function.__kwdefaults__, function.__module__ = keyword_defaults, reference[0]
    return function


def _from_code(what: str, python: str, code: bytes) -> Any:
    if python != _PYTHON:
        raise CodeGone(
            f"the state holds the {what}, which the operator does not refer to any more; its code was "
            f"saved by {python} and this is {_PYTHON}: let the operator refer to it again"
        )
    return cloudpickle.loads(code)


def _signature(code: types.CodeType) -> tuple[str, str, tuple[str, ...]]:
    """Return the names of code and the variables that it captures."""
    return (code.co_name, code.co_qualname, code.co_freevars)


def _code_again(
    python: str, code: bytes, name: str, qualified: str, captured: tuple[str, ...]
) -> types.CodeType:
    if python != _PYTHON:
        return _gone_code(name, qualified, captured)
    found: types.CodeType = cloudpickle.loads(code)
    return found


def _gone_code(name: str, qualified: str, captured: tuple[str, ...]) -> types.CodeType:
    """Return code that raises CodeGone. It captures the variables of the code that it replaces."""
    if not all(map(str.isidentifier, captured)):
        raise CodeGone(f"the state holds {qualified}, whose code was saved by another Python")
    source = _GONE.format(names=" = ".join(captured) or "unused", uses=", ".join(captured) or "None")
    made: dict[str, Any] = {}
    exec(source, made)
    code: types.CodeType = made["make"]().__code__
    return code.replace(co_name=name, co_qualname=qualified)


_GONE = """
def make():
    {names} = None
    def gone(*_any_, **_named_):
        from penstock.operators.user_pickle import raise_gone
        raise_gone()
        {uses}
    return gone
"""


def raise_gone() -> None:
    """Raise CodeGone in place of code that another Python saved: running that could end the process."""
    raise CodeGone(
        "the state holds a function whose code was saved by another Python, and the operator does not refer "
        "to it any more: let it refer to it again, or implement migrate_state under the earlier Python"
    )


class _Unpickler(pickle.Unpickler):
    """Reads what cloudpickle wrote as code: it is taken from the operator where that has it."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("cloudpickle") and name in _FROM_CODE:
            return _FROM_CODE[name]
        return super().find_class(_MOVED.get(module, module), name)


def _class_from_code(kind: Any, name: str, bases: Any, kwargs: Any, tracker: Any, extra: Any) -> Any:
    found = _reading.world.class_named(kwargs.get("__module__"), name)
    return found or _cloudpickle._make_skeleton_class(kind, name, bases, kwargs, tracker, extra)


def _enum_from_code(
    bases: Any, name: str, qualified: str, members: Any, module: str, tracker: Any, extra: Any
) -> Any:
    found = _reading.world.class_named(module, name)
    return found or _cloudpickle._make_skeleton_enum(bases, name, qualified, members, module, tracker, extra)


def _class_state_from_code(cls: type, state: Any) -> Any:
    """Set the members of a class that came as code; leave the operator's own class as it is."""
    if any(cls is known for known in _reading.world.classes.values()):
        return cls
    return _cloudpickle._class_setstate(cls, state)


def _function_from_code(code: Any, outside: Any, name: Any, defaults: Any, closure: Any) -> Any:
    for (_, qualified), places in _reading.world.codes.items():
        fitting = [place for place in places if place[0].co_freevars == code.co_freevars]
        if qualified == code.co_qualname and len(fitting) == 1:
            known, world = fitting[0]
            cells = tuple(types.CellType() for _ in known.co_freevars)
            found = types.FunctionType(known, world, name, defaults, cells)
            _reading.found.append(found)
            return found
    return _cloudpickle._make_function(code, outside, name, defaults, closure)


def _function_state_from_code(function: Any, state: Any) -> Any:
    """Restore a function; one that was found at the operator keeps the operator's globals."""
    if any(function is found for found in _reading.found):
        state[1]["__globals__"] = {}
    return _cloudpickle._function_setstate(function, state)


def _type_from_code(name: str) -> Any:
    return _untagged_code if name == "CodeType" else _cloudpickle._builtin_type(name)


def _untagged_code(*parts: Any) -> types.CodeType:
    if _PYTHON == _FIRST_PYTHON:
        return types.CodeType(*parts)
    names = [part for part in parts if isinstance(part, str)]  # file, name, qualified name
    return _gone_code(names[1], names[2], parts[-2])


_FROM_CODE = {
    "_make_skeleton_class": _class_from_code,
    "_make_skeleton_enum": _enum_from_code,
    "_class_setstate": _class_state_from_code,
    "_make_function": _function_from_code,
    "_function_setstate": _function_state_from_code,
    "_builtin_type": _type_from_code,
}
