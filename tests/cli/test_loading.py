"""Finding the topology that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from penstock.cli.loading import load
from penstock.errors import AppNotFound, DuplicateNodeName

ONE = """
from penstock.topology.stream import Topology
top = Topology("one")
also_top = top
"""


@pytest.fixture(autouse=True)
def _fresh_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Leave neither modules nor paths of the apps behind."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            module = sys.modules.pop(name)
            if name in cloudpickle.list_registry_pickle_by_value():
                sys.modules[name] = module
                cloudpickle.unregister_pickle_by_value(module)
                del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def reason(target: str) -> str:
    with pytest.raises(AppNotFound) as caught:
        load(target)
    return f"{caught.value.parameters['reason']}; {caught.value.parameters['next_step']}"


def test_a_file_with_one_topology_needs_no_name(tmp_path: Path) -> None:
    assert load(write(tmp_path / "app_one.py", ONE)).name == "one"


def test_a_name_after_the_colon_chooses_one_of_several(tmp_path: Path) -> None:
    app = write(tmp_path / "app_two.py", ONE + "other = Topology('two')\n")
    assert load(f"{app}:other").name == "two"


def test_several_topologies_without_a_name_are_listed(tmp_path: Path) -> None:
    told = reason(write(tmp_path / "app_many.py", ONE + "other = Topology('two')\n"))
    assert "several" in told
    assert "top, also_top, other" in told


def test_a_function_that_makes_a_topology_is_called(tmp_path: Path) -> None:
    app = write(tmp_path / "app_function.py", ONE + "def make():\n    return Topology('made')\n")
    assert load(f"{app}:make").name == "made"


def test_a_module_is_found_from_the_current_folder(tmp_path: Path) -> None:
    write(tmp_path / "shop_pkg" / "flows.py", ONE)
    assert load("shop_pkg.flows:top").name == "one"


def test_a_module_of_the_same_folder_can_be_imported_by_the_app(tmp_path: Path) -> None:
    write(tmp_path / "apps" / "helper_names.py", "NAME = 'helped'\n")
    text = (
        "from helper_names import NAME\nfrom penstock.topology.stream import Topology\ntop = Topology(NAME)\n"
    )
    assert load(write(tmp_path / "apps" / "app_helped.py", text)).name == "helped"


def test_functions_of_the_app_and_its_helpers_travel_by_value(tmp_path: Path) -> None:
    write(tmp_path / "helper_logic.py", "def twice(x):\n    return 2 * x\n")
    load(
        write(
            tmp_path / "app_shipped.py",
            ONE + "from helper_logic import twice\ndef f(x):\n    return twice(x)\n",
        )
    )
    shipped = cloudpickle.dumps(sys.modules["app_shipped"].f)
    for name in ("app_shipped", "helper_logic"):
        cloudpickle.unregister_pickle_by_value(sys.modules[name])
        del sys.modules[name]
    (tmp_path / "helper_logic.py").unlink()
    assert cloudpickle.loads(shipped)(21) == 42


def test_an_app_named_like_a_loaded_module_does_not_replace_it(tmp_path: Path) -> None:
    import json

    assert load(write(tmp_path / "json.py", ONE)).name == "one"
    assert sys.modules["json"] is json


def test_a_main_block_does_not_run(tmp_path: Path) -> None:
    assert (
        load(write(tmp_path / "app_main.py", ONE + "if __name__ == '__main__':\n    1 / 0\n")).name == "one"
    )


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    assert "no such file" in reason(str(tmp_path / "nowhere.py"))


def test_an_unknown_name_tells_the_ways_to_name_an_app() -> None:
    told = reason("no_such_module_at_all")
    assert "APP.py" in told
    assert "demo" in told


def test_a_module_under_an_unknown_package_is_not_found() -> None:
    assert "no such module" in reason("no_such_package.flows:top")


def test_a_missing_attribute_lists_the_topologies_that_are_there(tmp_path: Path) -> None:
    assert "top" in reason(write(tmp_path / "app_attr.py", ONE) + ":nothing")


def test_an_attribute_of_another_type_is_named(tmp_path: Path) -> None:
    assert "it is a int" in reason(write(tmp_path / "app_int.py", ONE + "x = 5\n") + ":x")


def test_a_file_without_a_topology_says_how_to_make_one(tmp_path: Path) -> None:
    assert "holds no Topology" in reason(write(tmp_path / "app_none.py", "x = 1\n"))


def test_an_error_in_the_file_gets_its_line(tmp_path: Path) -> None:
    assert "NameError" in reason(write(tmp_path / "app_name.py", "a = 1\nb = c\n"))
    assert "app_name.py:2" in reason(str(tmp_path / "app_name.py"))


def test_a_syntax_error_gets_its_line(tmp_path: Path) -> None:
    assert "app_syntax.py:2" in reason(write(tmp_path / "app_syntax.py", "a = 1\nb = = 2\n"))


def test_an_error_of_penstock_passes_through(tmp_path: Path) -> None:
    text = (
        ONE
        + "from penstock.topology.specs import UnionSpec\nfor _ in 'ab':\n    top.apply('n', UnionSpec())\n"
    )
    with pytest.raises(DuplicateNodeName):
        load(write(tmp_path / "app_twice.py", text))


MAKER = """
import penstock as ps

def make(name, again="1"):
    return ps.Topology(f"{name}-{again}")

top = ps.Topology("plain")
"""


def test_a_function_gets_the_values_of_the_command_line(tmp_path: Path) -> None:
    app = write(tmp_path / "app_maker.py", MAKER)
    assert load(f"{app}:make", ["shop"]).name == "shop-1"
    assert load(f"{app}:make", ["shop", "2"]).name == "shop-2"


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (":make", [], "missing: NAME; it takes: NAME"),
        (":make", ["a", "b", "c"], "too many values: 'c'"),
        (":top", ["a"], "takes no values"),
        ("", ["a"], "takes no values"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, name: str, values: list[str], words: str) -> None:
    app = write(tmp_path / "app_maker.py", MAKER)
    with pytest.raises(AppNotFound, match=words):
        load(f"{app}{name}", values)
