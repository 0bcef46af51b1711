"""Penstock: stream analytics on Apache Spark that stays up, stays right and can be changed while it runs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock import errors
from penstock.operators.operator import Operator
from penstock.operators.per_event import per_event
from penstock.topology.schema import Schema
from penstock.topology.stream import Stream, Topology

if TYPE_CHECKING:
    from penstock.connect.collect import Collect
    from penstock.connect.console import Console
    from penstock.connect.delta import Delta
    from penstock.connect.files import Files
    from penstock.connect.generator import Generator
    from penstock.connect.http_post import Http
    from penstock.connect.json_lines import JsonLines
    from penstock.connect.parquet import ParquetFiles as Parquet
    from penstock.connect.secret import Secret
    from penstock.connect.stdin import Stdin
    from penstock.launch import run, start
    from penstock.operators.aggregates import (
        Aggregate,
        count,
        distinct,
        first,
        last,
        max,
        mean,
        min,
        quantile,
        sum,
        top,
        variance,
    )
    from penstock.operators.fold import fold
    from penstock.operators.keyed import KeyedTable
    from penstock.operators.windows import count_window, sliding, tumbling
    from penstock.spark.options import RunOptions

__version__ = "0.1.0"
__all__ = [
    "Aggregate",
    "Collect",
    "Console",
    "Delta",
    "Files",
    "Generator",
    "Http",
    "JsonLines",
    "KeyedTable",
    "Operator",
    "Parquet",
    "RunOptions",
    "Schema",
    "Secret",
    "Stdin",
    "Stream",
    "Topology",
    "count",
    "count_window",
    "distinct",
    "errors",
    "first",
    "fold",
    "last",
    "max",
    "mean",
    "min",
    "per_event",
    "quantile",
    "run",
    "sliding",
    "start",
    "sum",
    "top",
    "tumbling",
    "variance",
]
# Loaded when first used: building a topology must not cost the import of Polars, Arrow or Spark.
_LAZY = {
    "Aggregate": "penstock.operators.aggregates:Aggregate",
    "Collect": "penstock.connect.collect:Collect",
    "Console": "penstock.connect.console:Console",
    "Delta": "penstock.connect.delta:Delta",
    "Files": "penstock.connect.files:Files",
    "Generator": "penstock.connect.generator:Generator",
    "Http": "penstock.connect.http_post:Http",
    "JsonLines": "penstock.connect.json_lines:JsonLines",
    "KeyedTable": "penstock.operators.keyed:KeyedTable",
    "Parquet": "penstock.connect.parquet:ParquetFiles",
    "RunOptions": "penstock.spark.options:RunOptions",
    "Secret": "penstock.connect.secret:Secret",
    "Stdin": "penstock.connect.stdin:Stdin",
    "count": "penstock.operators.aggregates:count",
    "count_window": "penstock.operators.windows:count_window",
    "distinct": "penstock.operators.aggregates:distinct",
    "first": "penstock.operators.aggregates:first",
    "fold": "penstock.operators.fold:fold",
    "last": "penstock.operators.aggregates:last",
    "max": "penstock.operators.aggregates:max",
    "mean": "penstock.operators.aggregates:mean",
    "min": "penstock.operators.aggregates:min",
    "quantile": "penstock.operators.aggregates:quantile",
    "run": "penstock.launch:run",
    "sliding": "penstock.operators.windows:sliding",
    "start": "penstock.launch:start",
    "sum": "penstock.operators.aggregates:sum",
    "top": "penstock.operators.aggregates:top",
    "tumbling": "penstock.operators.windows:tumbling",
    "variance": "penstock.operators.aggregates:variance",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
