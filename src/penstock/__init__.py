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
    from penstock.connect.parquet import ParquetFiles as Parquet
    from penstock.operators.keyed import KeyedTable
    from penstock.launch import run, start
    from penstock.spark.options import RunOptions

__version__ = "0.1.0"
__all__ = [
    "Collect",
    "Console",
    "Delta",
    "Files",
    "Generator",
    "KeyedTable",
    "Operator",
    "Parquet",
    "RunOptions",
    "Schema",
    "Stream",
    "Topology",
    "errors",
    "per_event",
    "run",
    "start",
]
# Loaded when first used: building a topology must not cost the import of Polars, Arrow or Spark.
_LAZY = {
    "Collect": "penstock.connect.collect:Collect",
    "Console": "penstock.connect.console:Console",
    "Delta": "penstock.connect.delta:Delta",
    "Files": "penstock.connect.files:Files",
    "Generator": "penstock.connect.generator:Generator",
    "KeyedTable": "penstock.operators.keyed:KeyedTable",
    "Parquet": "penstock.connect.parquet:ParquetFiles",
    "RunOptions": "penstock.spark.options:RunOptions",
    "run": "penstock.launch:run",
    "start": "penstock.launch:start",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
