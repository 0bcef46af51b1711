"""State that holds the user's own objects is read by another Python: by reference, never as its byte code."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import cloudpickle
import polars as pl
import pytest

from penstock.operators import user_pickle
from penstock.testing.elsewhere import run_elsewhere

APP = """
import enum
from collections import defaultdict
from dataclasses import dataclass, field
from penstock import Operator
STEP = 1
class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2
@dataclass
class Visits:
    count: int = 0
    kinds: set = field(default_factory=set)
    def add(self):
        self.count += STEP
        self.kinds.add(Kind.LARGE)
        return self.count
def helper():
    return Visits()
class Op(Operator):
    def init_state(self):
        start = 5
        return {"by": defaultdict(lambda: helper()), "from": defaultdict(lambda: start)}
    def process(self, batch, state, emit):
        return state
def local():
    class Inner:
        def say(self):
            return "inner"
    return Inner()
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Any]:
    """Loads a script as `penstock run` does: shipped as code, unknown to other processes."""
    loaded: list[Any] = []

    def load(source: str = APP) -> Any:
        path = tmp_path / f"{len(loaded)}.py"
        path.write_text(textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location("pickled_app", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["pickled_app"] = module
        spec.loader.exec_module(module)
        if not loaded:
            cloudpickle.register_pickle_by_value(module)
        loaded.append(module)
        return module

    yield load
    cloudpickle.unregister_pickle_by_value(loaded[0])
    sys.modules.pop("pickled_app", None)


def filled(module: Any) -> Any:
    state = module.Op().init_state()
    state["by"]["ann"].add()
    state["from"]["x"] += 1
    return state


def require_goes_on(state: Any, cls: type, step: int = 1) -> None:
    """The state is what it was, and its objects are of the class that the operator knows."""
    assert state["by"]["ann"].count == 1
    assert state["from"]["x"] == 6
    assert state["from"]["new"] == 5
    assert type(state["by"]["ann"]) is cls
    assert type(state["by"]["bob"]) is cls
    assert state["by"]["ann"].add() == 1 + step
    assert {kind.name for kind in state["by"]["ann"].kinds} == {"LARGE"}


def by_another_python(blob: bytes) -> bytes:
    """The same pickle, had the Python before written it."""
    python = user_pickle._PYTHON.encode()
    assert python in blob
    return blob.replace(python, python[:-1] + (b"0" if python[-1:] != b"0" else b"9"))


def test_objects_of_another_python_get_the_classes_and_functions_of_the_operator(app: Any) -> None:
    module = app()
    blob = user_pickle.dumps(filled(module), module.Op())
    for written in (blob, by_another_python(blob)):
        require_goes_on(user_pickle.loads(written, module.Op()), module.Visits)


def test_objects_get_the_methods_of_the_version_that_reads_them(app: Any) -> None:
    first = app()
    blob = user_pickle.dumps(filled(first), first.Op())
    second = app(APP.replace("STEP = 1", "STEP = 10"))
    require_goes_on(user_pickle.loads(blob, second.Op()), second.Visits, step=10)


def test_state_is_read_in_a_worker_that_cannot_import_the_script(app: Any) -> None:
    module = app()
    blob = by_another_python(user_pickle.dumps(filled(module), module.Op()))

    def visits(operator: Any, written: bytes) -> tuple[int, bytes]:
        from penstock.operators.user_pickle import dumps, loads

        state = loads(written, operator)
        count = state["by"]["ann"].add()
        return count, dumps(state, operator)

    count, again = run_elsewhere(visits, module.Op(), blob)
    assert count == 2
    assert user_pickle.loads(again, module.Op())["by"]["ann"].count == 2


def test_a_pickle_of_an_earlier_penstock_gets_the_operators_classes_too(app: Any) -> None:
    module = app()
    blob = cloudpickle.dumps(filled(module))
    second = app(APP.replace("STEP = 1", "STEP = 10"))
    require_goes_on(user_pickle.loads(blob, second.Op()), second.Visits, step=10)


def test_code_that_the_operator_does_not_know_is_run_by_the_python_that_wrote_it_alone(app: Any) -> None:
    module = app()
    blob = user_pickle.dumps({"object": module.local()}, module.Op())
    assert user_pickle.loads(blob, module.Op())["object"].say() == "inner"
    state = user_pickle.loads(by_another_python(blob), module.Op())
    with pytest.raises(user_pickle.CodeGone):
        state["object"].say()


def test_a_class_that_the_operator_knows_no_more_is_told_by_another_python(app: Any) -> None:
    first = app()
    blob = user_pickle.dumps(filled(first), first.Op())
    second = app(APP.replace("Visits", "Calls"))
    assert user_pickle.loads(blob, second.Op())["by"]["ann"].add() == 2
    with pytest.raises(user_pickle.CodeGone) as caught:
        user_pickle.loads(by_another_python(blob), second.Op())
    assert "Visits" in str(caught.value)


def test_state_is_read_by_an_app_whose_module_has_another_name(app: Any) -> None:
    module = app()
    written = by_another_python(user_pickle.dumps(filled(module), module.Op()))
    assert b"pickled_app" in written
    renamed = written.replace(b"pickled_app", b"another_app")  # run as a script it would be __main__
    require_goes_on(user_pickle.loads(renamed, module.Op()), module.Visits)


def test_shared_objects_stay_shared(app: Any) -> None:
    module = app()
    one = module.Visits()
    state = user_pickle.loads(user_pickle.dumps([one, one, {"a": one}], module.Op()), module.Op())
    assert state[0] is state[1] is state[2]["a"]


def test_polars_frames_are_kept_as_arrow(app: Any) -> None:
    module = app()
    frame = pl.DataFrame({"a": [1, None], "b": ["x", "y"]}, schema_overrides={"b": pl.Categorical})
    blob = user_pickle.dumps({"frame": frame, "series": frame["a"]}, module.Op())
    state = user_pickle.loads(blob, module.Op())
    assert state["frame"].equals(frame)
    assert state["frame"].schema == frame.schema
    assert state["series"].equals(frame["a"])


def test_byte_code_in_a_pickle_that_names_no_python_is_run_by_the_first_python_alone(app: Any) -> None:
    module = app()
    blob = cloudpickle.dumps(module.local())
    if user_pickle._PYTHON == user_pickle._FIRST_PYTHON:
        assert user_pickle.loads(blob, module.Op()).say() == "inner"
    else:
        with pytest.raises(user_pickle.CodeGone):
            user_pickle.loads(blob, module.Op()).say()


def test_the_saved_state_of_a_slice_is_read_by_another_python(app: Any) -> None:
    from penstock.engine.slice_state import open_state, save_state
    from penstock.testing.engine import MemoryShelf
    from penstock.topology import specs
    from penstock.topology.graph import Node

    first, shelf = app(), MemoryShelf()
    held = open_state(Node("visits", specs.ProcessSpec(first.Op())), 0, 1, shelf, None)
    held.state["by"]["ann"].add()
    held.state["from"]["x"] += 1
    save_state(held, shelf, 0)
    assert user_pickle._PYTHON.encode() in shelf.values[0]  # the Python whose code goes along
    second = app(APP.replace("STEP = 1", "STEP = 10"))
    again = open_state(Node("visits", specs.ProcessSpec(second.Op())), 0, 1, shelf, None)
    require_goes_on(again.state, second.Visits, step=10)


def test_a_function_whose_code_is_gone_can_be_looked_at_and_says_so_when_it_is_called(app: Any) -> None:
    captured = 5

    def inner(*, step: int = 1) -> int:
        return captured + step

    inner.__module__ = "pickled_app"
    blob = user_pickle.dumps({"f": inner}, app().Op())
    assert user_pickle.loads(blob, app().Op())["f"]() == 6
    function = user_pickle.loads(by_another_python(blob), app().Op())["f"]
    assert (function.__name__, function.__code__.co_freevars) == ("inner", ("captured",))
    with pytest.raises(user_pickle.CodeGone) as caught:
        function()
    assert caught.traceback[-1].frame.f_locals is not None


def test_paths_of_python_3_13_are_read_by_all(app: Any) -> None:
    blob = b"\x80\x05\x8c\x0epathlib._local\x8c\x0dPurePosixPath\x93\x8c\x01a\x85R."
    assert user_pickle.loads(blob, app().Op()) == PurePosixPath("a")
