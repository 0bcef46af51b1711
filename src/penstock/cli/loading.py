"""Find the topology that the command line names.

``APP.py``, ``APP.py:NAME``, ``MODULE``, ``MODULE:NAME`` or a built-in app's name. NAME is a Topology, or a
function that makes one from the values on the command line; without NAME the module must hold one Topology.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.apps import APPS
from penstock.cli.values import bind, usage
from penstock.errors import AppNotFound, PenstockError

if TYPE_CHECKING:
    from penstock.control.live_table import LiveTable
    from penstock.topology.stream import Topology


@dataclass(frozen=True, slots=True)
class App:
    """What a module offers: a topology, and how to look at it while it runs."""

    topology: Topology
    live: LiveTable | None
    identity: str
    """What tells this app from others: the path of its file, or its module; and the name in it."""


def load_app(target: str, values: Sequence[str] = ()) -> App:
    """The topology that ``target`` names; raises AppNotFound and says what was found instead.

    A function that makes the topology gets ``values`` as its arguments (see ``penstock.cli.values``).
    """
    module, place, name = _module(target)
    found = _named(module, name, place, values) if name else _only(module, place, values)
    file = str(Path(place).resolve()) if place.endswith(".py") else place
    return App(found, getattr(module, "LIVE", None), f"{file}:{name}" if name else file)


def maker(target: str) -> Callable[..., Any] | None:
    """The function that makes the topology; None if ``target`` names a topology itself."""
    module, _, name = _module(target)
    value = getattr(module, name, None) if name else None
    return value if _is_maker(value) else None


def _module(target: str) -> tuple[ModuleType, str, str]:
    """The module that holds what ``target`` names, where that is, and the name in it if one was given."""
    place, colon, name = APPS.get(target, target).rpartition(":")
    if not colon:
        place, name = name, ""
    return (_from_file(Path(place)) if place.endswith(".py") else _from_name(place)), place, name


def _is_maker(value: Any) -> bool:
    from penstock.topology.stream import Topology

    return callable(value) and not isinstance(value, type | Topology)


def load(target: str, values: Sequence[str] = ()) -> Topology:
    """The topology alone."""
    return load_app(target, values).topology


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise AppNotFound(what=path, reason="there is no such file", next_step="check the path")
    folder = path.resolve().parent
    _on_path(folder)
    name = _free_name(path)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None  # a path that ends in .py has a spec,
    assert spec.loader is not None  # and a loader
    module = importlib.util.module_from_spec(spec)
    known = set(sys.modules)
    # Known by its name while it runs: dataclasses and pickling look it up there.
    sys.modules[name] = module
    try:
        with _users_code(path.name):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    _ship_by_value(folder, [name, *(set(sys.modules) - known)])
    return module


def _from_name(name: str) -> ModuleType:
    folder = Path.cwd()
    _on_path(folder)
    known = set(sys.modules)
    if not _exists(name):
        raise AppNotFound(
            what=name,
            reason="there is no such module, file or built-in app",
            next_step="name a file as APP.py, a module as MODULE:NAME, "
            f"or a built-in app: {', '.join(sorted(APPS))}",
        )
    with _users_code(name):
        module = importlib.import_module(name)
    _ship_by_value(folder, [name, *(set(sys.modules) - known)])
    return module


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # a package on the way is missing; no name at all
        return False


def _on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _free_name(path: Path) -> str:
    """The file's stem, unless another module has it: an app called `json.py` must not replace json."""
    there = sys.modules.get(path.stem)
    if there is None or getattr(there, "__file__", None) == str(path.resolve()):
        return path.stem
    return f"{path.stem}_app"


def _ship_by_value(folder: Path, names: list[str]) -> None:
    """Send the app's own modules to the workers as code: they cannot import them there."""
    import cloudpickle

    for name in names:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None or not file or not Path(file).is_relative_to(folder):
            continue
        if "site-packages" in Path(file).parts or name.partition(".")[0] == "penstock":
            continue
        cloudpickle.register_pickle_by_value(module)


def _named(module: ModuleType, name: str, place: str, values: Sequence[str]) -> Topology:
    from penstock.topology.stream import Topology

    if not hasattr(module, name):
        raise AppNotFound(what=place, reason=f"it has no '{name}'", next_step=f"it has: {_found(module)}")
    value = getattr(module, name)
    if _is_maker(value):
        make = _fitting(value, f"{place}:{name}", values)
        with _users_code(f"{place}:{name}"):
            value = make()
    elif values:
        raise _takes_none(f"{place}:{name}", values)
    if not isinstance(value, Topology):
        raise AppNotFound(
            what=f"{place}:{name}",
            reason=f"it is a {type(value).__name__}, not a Topology",
            next_step=f"topologies there: {_found(module)}",
        )
    return value


def _fitting(function: Callable[..., Any], place: str, values: Sequence[str]) -> Callable[[], Any]:
    try:
        return bind(function, values)
    except ValueError as error:
        raise AppNotFound(
            what=place,
            reason=f"it cannot be made from {list(values)}: {error}",
            next_step=f"it takes: {usage(function)}",
        ) from None


def _takes_none(place: str, values: Sequence[str]) -> AppNotFound:
    return AppNotFound(
        what=place,
        reason=f"it is a topology and takes no values, got {list(values)}",
        next_step="name a function that makes the topology as APP.py:FUNCTION, or leave the values out",
    )


def _only(module: ModuleType, place: str, values: Sequence[str]) -> Topology:
    from penstock.topology.stream import Topology

    if values:
        raise _takes_none(place, values)
    found = {id(value): value for value in vars(module).values() if isinstance(value, Topology)}
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise AppNotFound(
            what=place,
            reason="it holds no Topology",
            next_step="make one at the top level, e.g. top = penstock.Topology('name'), "
            "or name a function that returns one as APP.py:FUNCTION",
        )
    raise AppNotFound(
        what=place,
        reason="it holds several topologies",
        next_step=f"choose one, e.g. {place}:NAME; {_found(module)}",
    )


def _found(module: ModuleType) -> str:
    from penstock.topology.stream import Topology

    names = [name for name, value in vars(module).items() if isinstance(value, Topology)]
    return ", ".join(names) or "no topology"


@contextmanager
def _users_code(what: str) -> Iterator[None]:
    """Give an error in the user's code its address; ours pass through."""
    try:
        yield
    except PenstockError:
        raise
    except (Exception, SystemExit) as error:
        raise AppNotFound(
            what=what, reason=f"it cannot be loaded: {_told(error)}", next_step="mend it and try again"
        ) from error


def _told(error: BaseException) -> str:
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg} ({Path(error.filename or '?').name}:{error.lineno})"
    # The last line outside of Python's own loader is where the user has to look.
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    return f"{kind}: {error} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
