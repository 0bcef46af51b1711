"""A fingerprint is equal for equal logic, in whatever process and at whatever line, and only then."""

from __future__ import annotations

import functools
import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from penstock.topology.fingerprint import fingerprint, is_library


def module(source: str, name: str = "users_module") -> Any:
    """A module of the user's with this source."""
    made = types.ModuleType(name)
    exec(compile(textwrap.dedent(source), f"{name}.py", "exec"), vars(made))
    return made


def logic(source: str, what: str = "f") -> str:
    return fingerprint(getattr(module(source), what))


BASE = """
LIMIT = 10
def helper(x):
    return x + 1
def f(df, scale=2):
    return helper(df) * scale > LIMIT
"""


def test_the_same_logic_at_other_lines_is_the_same() -> None:
    assert logic(BASE) == logic("\n\n# moved\nimport os\n" + BASE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("helper(df) * scale > LIMIT", "helper(df) * scale > 11"),
        ("helper(df) * scale > LIMIT", "helper(df) * scale >= LIMIT"),
        ("helper(df) * scale > LIMIT", "helper(df) + scale > LIMIT"),
        ("scale=2", "scale=3"),
        ("scale=2", "*, scale=2"),
        ("LIMIT = 10", "LIMIT = 12"),
        ("return x + 1", "return x + 2"),
    ],
)
def test_a_change_of_the_code_or_of_what_it_uses_is_seen(before: str, after: str) -> None:
    assert before in BASE
    assert logic(BASE) != logic(BASE.replace(before, after))


def test_what_a_function_does_not_use_is_not_its_logic() -> None:
    assert logic(BASE) == logic(BASE + "\nOTHER = 1\ndef g(x):\n    return x.LIMIT\n")
    text = "class Row: pass\nsize = {}\ndef f(df):\n    return df.size\n"
    assert logic(text.format(1)) == logic(text.format(2))  # an attribute, not the global of that name


def test_a_captured_value_is_logic() -> None:
    def scaled(factor: Any) -> Any:
        return lambda df: df * factor

    assert fingerprint(scaled(2)) == fingerprint(scaled(2))
    assert fingerprint(scaled(2)) != fingerprint(scaled(3))
    assert fingerprint(scaled(2)) != fingerprint(scaled(2.0))
    assert fingerprint(scaled([1, 2])) != fingerprint(scaled([2, 1]))


def test_a_helper_in_another_module_of_the_users_is_logic() -> None:
    def using(body: str) -> str:
        helpers = module(f"def helper(x):\n    return {body}\ndef unused(x):\n    return x\n", "helpers")
        main = module("def f(df):\n    return helpers.helper(df)\n")
        main.helpers = helpers
        return fingerprint(main.f)

    assert using("x + 1") == using("x + 1")
    assert using("x + 1") != using("x + 2")


def test_what_is_caught_and_where_is_logic() -> None:
    before, after = "def f(x):\n    try:\n        a = g(x)\n", "    return b\n"
    inside = f"{before}        b = h(a)\n    except ValueError:\n        b = 0\n{after}"
    outside = f"{before}    except ValueError:\n        b = 0\n    b = h(a)\n{after}"
    assert logic(inside) != logic(outside)


OPERATOR = """
class Base:
    def rate(self):
        return 1
class Op(Base):
    limit = 5
    _private = 7
    def __init__(self, n):
        self.n = n
    def process(self, batch):
        return batch * self.rate()
    @staticmethod
    def static(x):
        return x
    @property
    def size(self):
        return 3
"""


def operator(source: str, n: int = 1) -> str:
    return fingerprint(module(source).Op(n))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("limit = 5", "limit = 6"),
        ("_private = 7", "_private = 8"),
        ("return 1", "return 2"),
        ("batch * ", "batch + "),
        ("return x", "return -x"),
        ("return 3", "return 4"),
    ],
)
def test_everything_of_an_operators_class_and_its_bases_is_logic(before: str, after: str) -> None:
    assert operator(OPERATOR) == operator(OPERATOR)
    assert operator(OPERATOR) != operator(OPERATOR.replace(before, after))


def test_an_operators_parameters_are_logic() -> None:
    assert operator(OPERATOR, 1) != operator(OPERATOR, 2)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


def two_of_each() -> Iterator[tuple[Any, Any]]:
    yield pl.col("a") > 1, pl.col("a") > 2
    yield pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 3]})
    yield pl.Series([1]), pl.Series([2])
    yield np.array([1, 2]), np.array([1, 3])
    yield np.array(["a", None], object), np.array(["b", None], object)
    yield functools.partial(max, 1), functools.partial(max, 2)
    yield re.compile("a" * 300 + "b"), re.compile("a" * 300 + "c")
    yield Slotted(1), Slotted(2)
    yield {"a", "b"}, {"a", "c"}
    yield {"a": 1}, {"a": 2}
    yield Path("a"), Path("b")
    yield [1].count, [2].count
    yield str.upper, str.lower
    yield logging.getLogger("a"), logging.getLogger("b")
    yield functools.lru_cache(lambda x: x + 1), functools.lru_cache(lambda x: x + 2)


@pytest.mark.parametrize(("one", "other"), list(two_of_each()), ids=lambda v: type(v).__name__)
def test_objects_of_libraries_count_by_what_they_hold(one: Any, other: Any) -> None:
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


def test_a_kernel_counts_by_its_source_whether_it_was_compiled_yet_or_not() -> None:
    class Kernel:
        """Like numba's: holds the function, locks, and what was compiled for which types."""

        def __init__(self, function: Any) -> None:
            self.py_func = function
            self.compiled = [threading.Lock()]

    kernel = Kernel(lambda x: x + 1)
    before = fingerprint(kernel)
    kernel.compiled.append(threading.Lock())
    assert fingerprint(kernel) == before
    assert fingerprint(Kernel(lambda x: x + 2)) != before


def test_sharing_and_recursion_make_no_difference_and_no_trouble() -> None:
    shared = [1, 2]
    assert fingerprint([shared, shared]) == fingerprint([[1, 2], [1, 2]])
    circle: list[Any] = [1]
    circle.append(circle)
    assert fingerprint(circle) == fingerprint(circle)
    assert logic("def f(n):\n    return n and f(n - 1)\n") != logic("def f(n):\n    return n and f(n - 2)\n")


def test_what_has_no_value_counts_by_its_kind() -> None:
    assert fingerprint(threading.Lock()) == fingerprint(threading.Lock())


SCRIPT = """
import functools, sys
import numpy as np, polars as pl
sys.path.insert(0, '')
import penstock as ps
from penstock.topology.fingerprint import fingerprint, is_library
from tests.topology import shop

WORDS = {"alpha", "beta", "gamma", "delta"}
LOOKUP = {"a": frozenset(WORDS), "b": [1.5, None, b"x"]}

def uses(df):
    return df.filter(pl.col("w").is_in(WORDS) | df["v"] in {"x", "y", "z"}, LOOKUP)

values = [shop.topology, shop.Totals(3.0), uses, lambda x: x in {"p", "q", "r"}, functools.partial(uses, a=1),
          pl.col("a").is_in(["x", "y"]) & (pl.col("b") > 2), pl.DataFrame({"a": ["x"]}), np.arange(4), WORDS]
print([fingerprint(value) for value in values], [node.logic for node in shop.topology().graph])
"""


@pytest.mark.long
def test_other_processes_with_other_hash_seeds_agree() -> None:
    answers = set()
    for seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=Path(__file__).parents[2], capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, timeout=60,
        )  # fmt: skip
        answers.add(done.stdout)
    assert len(answers) == 1


def test_a_script_is_the_users_in_a_process_whose_own_script_is_a_librarys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = types.ModuleType("__main__")
    worker.__file__ = pytest.__file__  # as in a driver or worker of an installed Penstock
    monkeypatch.setitem(sys.modules, "__main__", worker)
    is_library.cache_clear()
    before, after = (module(f"def f(x):\n    return x + {n}\n", "__main__").f for n in (1, 2))
    assert fingerprint(before) != fingerprint(after)
