"""A source digest is equal for equal sources, whatever byte code and bytes a release makes of them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.upgrades import shop

from penstock.control.shipping import dumps, loads
from penstock.plan import plan
from penstock.testing.elsewhere import run_elsewhere
from penstock.topology.source_digest import SourceDigest, source_digest


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Loads a module of the user's from a file."""
    count = 0

    def loaded(source: str) -> Any:
        nonlocal count
        count += 1
        path = tmp_path / f"app{count}" / "app.py"
        path.parent.mkdir()
        path.write_text(textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location("app", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["app"] = module
        spec.loader.exec_module(module)
        return module

    yield loaded
    sys.modules.pop("app", None)


APP = """
import functools
from dataclasses import dataclass, field
import polars as pl
LIMIT = 10
ALLOWED = [1, 2, 3]
def helper(x):
    return x + 1
def f(df, scale=2):
    def inner(y):
        return [helper(z) * scale for z in y]
    return inner(df) > LIMIT, len("")
def made(n):
    return lambda df: df * n
pair = (lambda x: x + 1, lambda x: x + 2)
@dataclass(order=True)
class Pair:
    a: int = 1
    b: list = field(default_factory=list)
class Base:
    rate = 5
    def size(self):
        return self.rate
class Op(Base):
    def __init__(self, n):
        self.n = n
        self.pair = Pair(n)
    @functools.cached_property
    def cached(self):
        return self.n
    def process(self, df):
        return df.filter(pl.col("a").is_in(ALLOWED)) if self.size() else None
def expression():
    return pl.col("a").is_in(ALLOWED).clip(1.0, 2.0).replace({"x": "y"})
def whole():
    return [f, made(3), *pair, Op(2), Pair(7), expression()]
"""


def digest(module: Any) -> SourceDigest:
    return source_digest(module.whole())


def test_equal_sources_are_equal_wherever_they_lie(load: Any) -> None:
    found = digest(load(APP))
    assert found.exact is not None
    assert found.exact == digest(load("\n\n# moved\nimport os\n" + APP)).exact
    assert {"app:f", "app:helper", "app:Op", "app:Pair"} <= set(found.references)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 10", "LIMIT = 11"),
        ("return x + 1\n", "return x + 2\n"),
        ("scale=2", "scale=3"),
        ("* scale", "+ scale"),
        ('len("")', "len()"),
        ("made(3)", "made(4)"),
        ("lambda x: x + 2)", "lambda x: x + 3)"),
        ("lambda x: x + 1,", "lambda x: x + 9,"),
        ("order=True", "order=False"),
        ("a: int = 1", "a: int = 2"),
        ("rate = 5", "rate = 6"),
        ("return self.rate", "return -self.rate"),
        ("Op(2)", "Op(3)"),
        ("Pair(7)", "Pair(8)"),
        ("ALLOWED = [1, 2, 3]", "ALLOWED = [1, 2, 4]"),
        ("clip(1.0, 2.0)", "clip(1.0, 2.5)"),
        ('{"x": "y"}', '{"x": "z"}'),
        ("return self.n\n", "return self.n + 1\n"),
    ],
)
def test_a_change_is_seen_by_its_source_and_by_the_words_of_an_expression(
    load: Any, before: str, after: str
) -> None:
    assert before in APP
    first, second = digest(load(APP)), digest(load(APP.replace(before, after)))
    assert first.exact != second.exact
    assert first.worded != second.worded


def test_code_that_travelled_to_another_process_has_the_same_digest() -> None:
    program = plan(shop.topology())
    here = {node.name: source_digest(node.spec) for node in program.graph}

    def digests(shipped: bytes) -> dict[str, SourceDigest]:
        return {node.name: source_digest(node.spec) for node in loads(shipped).graph}

    assert all(found.exact for found in here.values())
    assert run_elsewhere(digests, dumps(program)) == here


def test_code_without_a_source_is_named(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec("def typed_in(df):\n    return df", names)
    found = source_digest(names["typed_in"])
    assert (found.exact, found.worded) == (None, None)
    assert found.missing is not None
    assert "typed_in" in found.missing


def test_a_file_that_was_edited_since_it_was_imported_is_no_source(load: Any) -> None:
    module = load(APP)
    path = Path(module.__file__)
    path.write_text(path.read_text().replace("return x + 1", "return x - 1"))
    assert source_digest(module.helper).exact is None


def test_a_field_that_a_later_release_added_with_a_default_changes_nothing() -> None:
    from dataclasses import field, make_dataclass

    before = make_dataclass("Options", [("a", int)])
    after = make_dataclass("Options", [("a", int), ("b", int, field(default=3))])
    for made in (before, after):
        made.__module__ = "penstock.options"
    assert source_digest(before(1)) == source_digest(after(1))
    assert source_digest(before(1)) != source_digest(after(1, 4))


def test_values_count_by_what_they_hold(load: Any) -> None:
    frame = pl.DataFrame({"a": [1, None], "b": ["x", "y"]})
    assert source_digest(frame) == source_digest(frame.clone())
    assert source_digest(frame) != source_digest(frame.with_columns(a=pl.lit(2)))
    assert source_digest(frame["a"].to_numpy()) != source_digest(frame["a"].fill_null(3).to_numpy())
    assert source_digest(Path("a")) != source_digest(Path("b"))


DIGEST = """
import sys, importlib.util
sys.path[:0] = {path!r}
spec = importlib.util.spec_from_file_location("app", {app!r})
module = importlib.util.module_from_spec(spec)
sys.modules["app"] = module
spec.loader.exec_module(module)
from penstock.topology.source_digest import source_digest
found = source_digest(module.whole())
print(found.exact, found.worded)
"""


def test_another_optimisation_of_the_byte_code_has_the_same_digest(load: Any) -> None:
    module = load(APP)
    script = DIGEST.format(path=[str(Path(__file__).parents[2] / "src")], app=module.__file__)
    done = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, text=True, check=True)
    found = digest(module)
    assert done.stdout.split() == [found.exact, found.worded]
