"""A topology as JSON and back, in this process and in another."""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from tests.topology import shop

import penstock as ps
from penstock.errors import (
    BadArgument,
    BadNodeName,
    CyclicTopology,
    DuplicateNodeName,
    UnknownNode,
    UnknownOutput,
)
from penstock.topology.codec import decode, encode

ROOT = Path(__file__).parents[2]


class Colour(enum.IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


def every_connector() -> ps.Topology:
    """All sources and sinks that ship, with arguments of many types."""
    top = ps.Topology("connectors")
    rows = top.source("made", ps.Generator(shop.make_orders, schema=shop.ORDERS, rate=5.0, lateness="3s"))
    files = top.source(
        "files", ps.Files("in/*.jsonl", format="jsonl", schema={"at": dt.datetime, "n": int}, time="at")
    )
    rows.sink("delta", ps.Delta("out/a", partition_by=("user",)))
    rows.sink("parquet", ps.Parquet("out/b"))
    rows.sink("console", ps.Console(limit=3))
    files.sink("collect", ps.Collect())
    return top


def with_code_of_its_own(factor: float) -> ps.Topology:
    """Lambdas, captured values, expressions, operators and routes that no module holds."""

    class Local(ps.Operator):
        returns = {"user": str}

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            emit(batch.select("user"))

    top = ps.Topology("own")
    rows = top.source("rows", ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=6))
    scaled = rows.filter("some", pl.col("amount") > 1).map(
        "scaled", lambda df: df.with_columns(amount=df["amount"] * factor)
    )
    scaled.partition_by(lambda df: (df["amount"] % 2).cast(int)).process(
        "local", Local(), parallelism=2
    ).sink("out", ps.Collect())
    return top


TOPOLOGIES = [shop.topology, every_connector, lambda: with_code_of_its_own(2.0)]


@pytest.mark.parametrize("build", TOPOLOGIES, ids=["shop", "connectors", "own code"])
def test_a_topology_comes_back_equal(build: Any) -> None:
    top = build()
    again = ps.Topology.from_json(top.to_json())
    assert again == top
    assert not top.diff(again)
    assert again.describe() == top.describe()
    assert [node.site for node in again.graph] == [node.site for node in top.graph]


def test_what_comes_back_runs_alike() -> None:
    from penstock import testing

    top = with_code_of_its_own(3.0)
    again = ps.Topology.from_json(top.to_json())
    assert testing.run(again)["out"].equals(testing.run(top)["out"])


def test_functions_of_modules_travel_by_name_and_others_as_code() -> None:
    nodes = {node["name"]: node for node in json.loads(shop.topology().to_json())["nodes"]}
    assert nodes["euros"]["spec"]["function"] == {"$ref": "tests.topology.shop:in_euros"}
    own = {node["name"]: node for node in json.loads(with_code_of_its_own(1.0).to_json())["nodes"]}
    assert set(own["scaled"]["spec"]["function"]) == {"$pickle", "$python"}


@pytest.mark.long
def test_another_process_reads_the_same_topology(tmp_path: Path) -> None:
    texts = {}
    for name, top in (("shop", shop.topology()), ("own", with_code_of_its_own(2.0))):
        texts[name] = {"json": top.to_json(), "described": top.describe(), "logic": logic(top)}
    (tmp_path / "in.json").write_text(json.dumps(texts))
    script = (
        "import json, sys, penstock as ps\n"
        "for name, text in json.loads(open(sys.argv[1]).read()).items():\n"
        "    top = ps.Topology.from_json(text['json'])\n"
        "    assert top.describe() == text['described'], top.describe()\n"
        "    logic = {node.name: node.logic for node in top.graph}\n"
        "    assert logic == text['logic'], (name, logic, text['logic'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "in.json")], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def logic(top: ps.Topology) -> dict[str, str]:
    return {node.name: node.logic for node in top.graph}


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, 2.5, "text", b"bytes", (1, ("a", None)), [1, [2]], {"a": {"b": 1}}, {"$a": 1}, {1: 2},
        Path("a/b"), dt.timedelta(microseconds=-7), dt.datetime(2024, 1, 2, 3), Colour.RED, Point(1, 2),
        OrderedDict(a=1), ps.Schema.of({"a": int}), shop.in_euros, shop.Totals, len, {1, 2},
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value),
)  # fmt: skip
def test_a_value_comes_back_with_its_type(value: Any) -> None:
    again = decode(json.loads(json.dumps(encode(value))))
    assert again == value
    assert type(again) is type(value)


def node(name: str, *upstream: str, output: str = "out") -> dict[str, Any]:
    inputs = [{"upstream": u, "output": output, "input": "in", "route": None} for u in upstream]
    spec = {"$type": "penstock.topology.specs:UnionSpec"}
    return {
        "name": name,
        "spec": spec,
        "inputs": inputs,
        "parallelism": 1,
        "on_error": "stop",
        "site": ["f.py", 3],
    }


@pytest.mark.parametrize(
    ("nodes", "error", "parameters"),
    [
        ([node("a", "b"), node("b", "a")], CyclicTopology, {"cycle": "a → b → a"}),
        ([node("a", "a")], CyclicTopology, {"cycle": "a → a"}),
        ([node("a"), node("b", "c")], UnknownNode, {"node": "c", "topology": "t", "known": "a, b"}),
        ([node("a"), node("b", "a", output="late")], UnknownOutput, {"node": "a", "output": "late"}),
        ([node("a"), node("a")], DuplicateNodeName, {"node": "a"}),
        ([node("a b")], BadNodeName, {"node": "a b"}),
    ],
)
def test_json_is_checked_like_anything_else(nodes: Any, error: Any, parameters: dict[str, str]) -> None:
    with pytest.raises(error) as caught:
        ps.Topology.from_json(json.dumps({"format": 1, "name": "t", "nodes": nodes}))
    assert parameters.items() <= caught.value.parameters.items()


def test_nodes_may_be_listed_in_any_order() -> None:
    text = json.dumps({"format": 1, "name": "t", "nodes": [node("b", "a"), node("a")]})
    assert [n.name for n in ps.Topology.from_json(text).graph.sorted()] == ["a", "b"]


@pytest.mark.parametrize("text", ['{"format": 2}', "{}", "[]", '"shop"'])
def test_json_of_another_format_is_refused(text: str) -> None:
    with pytest.raises(BadArgument) as caught:
        ps.Topology.from_json(text)
    assert caught.value.parameters["what"] == "format"


@pytest.mark.parametrize("reference", ["no_such_module:f", "tests.topology.shop:no_such_function"])
def test_a_name_that_cannot_be_imported_is_told(reference: str) -> None:
    with pytest.raises(BadArgument) as caught:
        decode({"$ref": reference})
    assert caught.value.parameters["what"] == f"the reference {reference!r}"


def test_byte_code_of_another_python_is_refused_in_words() -> None:
    top = shop.topology()
    source = top.source("more", ps.Generator(lambda first, count: None, schema={"a": int}))
    source.map("doubled", lambda df: df * 2).sink("out-more", ps.Collect())
    text = top.to_json()
    assert '"$python": "cpython-' in text
    with pytest.raises(BadArgument) as caught:
        ps.Topology.from_json(re.sub(r'"\$python": "[^"]*"', '"$python": "cpython-3.10"', text))
    assert "3.10" in caught.value.parameters["got"]
