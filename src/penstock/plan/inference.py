"""Find the columns of every output before anything runs, by running functions on no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
from polars.exceptions import ColumnNotFoundError

from penstock.errors import BadArgument, MissingColumn, PenstockError, SchemaUnknown, WrongType
from penstock.frames.types import empty, of_frame
from penstock.operators.operator import Operator
from penstock.operators.per_event import PerEvent
from penstock.operators.stateless import EVALUATE
from penstock.topology import specs
from penstock.topology.graph import IN, OUT, Node
from penstock.topology.schema import Schema

_UNHASHABLE = ("list<", "struct<")


def output_schemas(node: Node, inputs: Mapping[str, Schema]) -> dict[str, Schema]:
    """The columns on each output of a node, given those of its inputs."""
    match node.spec:
        case specs.SourceSpec(source=source):
            return {OUT: _source_schema(node, source)}
        case specs.SinkSpec(sink=sink):
            _check_sink(node, sink)
            return {}
        case specs.DataFrameSpec(returns=returns):
            return {OUT: returns}
        case specs.ProcessSpec() as spec:
            return _process_schemas(node, spec, inputs)
    return {OUT: _stateless_schema(node, inputs[IN])}


def require_columns(node: Node, columns: Iterable[str], schema: Schema) -> None:
    """Raise unless all columns are there and can be hashed."""
    for column in columns:
        if column not in schema:
            raise MissingColumn(
                node=node.name, site=node.site, column=column, columns=", ".join(schema) or "none"
            )
        if schema[column].startswith(_UNHASHABLE):
            raise WrongType(
                node=node.name,
                site=node.site,
                what=f"key column '{column}'",
                got=schema[column],
                allowed="a column with single values",
            )


def _source_schema(node: Node, source: Any) -> Schema:
    if not hasattr(source, "planner") or not hasattr(source, "schema"):
        raise WrongType(
            node=node.name,
            site=node.site,
            what="the source",
            got=type(source).__name__,
            allowed="a penstock.connect.source.Source such as ps.Files or ps.Generator",
        )
    schema = Schema.of(source.schema)
    if source.time is not None:
        require_columns(node, [source.time], schema)
        if schema[source.time] != "timestamp":
            raise WrongType(
                node=node.name,
                site=node.site,
                what=f"time column '{source.time}'",
                got=schema[source.time],
                allowed="timestamp",
            )
    return schema


def _stateless_schema(node: Node, schema: Schema) -> Schema:
    declared = _declared(node.spec)
    if declared is not None:
        return declared
    function = getattr(node.spec, "function", None)
    if isinstance(function, PerEvent):
        raise SchemaUnknown(node=node.name, site=node.site, because=" (per_event runs on single events)")
    if isinstance(node.spec, specs.FilterSpec):
        _check_filter(node, node.spec.keep, schema)
        return schema
    if isinstance(node.spec, specs.MapSpec | specs.FlatMapSpec) and not callable(function):
        raise WrongType(
            node=node.name,
            site=node.site,
            what=f"the function of {node.spec.kind}",
            got=type(function).__name__,
            allowed="a function from a DataFrame to a DataFrame",
        )
    return _schema_of(node, _on_nothing(node, schema))


def _check_filter(node: Node, keep: Any, schema: Schema) -> None:
    """Raise unless it tells which rows stay. What it cannot tell of no rows it may tell of some."""
    if isinstance(keep, PerEvent):
        return
    if not isinstance(keep, pl.Expr) and not callable(keep):
        raise _wrong_filter(node, type(keep).__name__)
    try:
        rows = empty(schema)
        told = keep if isinstance(keep, pl.Expr) else keep(rows)
        told = rows.select(told).to_series() if isinstance(told, pl.Expr) else told
    except ColumnNotFoundError as error:
        raise _missing(node, error, schema) from error
    except Exception:  # noqa: BLE001 - the maximum of nothing, for instance
        return
    kind = getattr(told, "dtype", type(told).__name__)
    if kind not in (pl.Boolean, "bool", "list"):
        raise _wrong_filter(node, f"{kind}")


def _wrong_filter(node: Node, got: str) -> WrongType:
    return WrongType(
        node=node.name,
        site=node.site,
        what="what filter keeps rows by",
        got=got,
        allowed="a Polars expression, or a function from a DataFrame to booleans",
    )


def _check_sink(node: Node, sink: Any) -> None:
    if not all(hasattr(sink, method) for method in ("open", "commit", "describe")):
        raise WrongType(
            node=node.name,
            site=node.site,
            what="the sink",
            got=type(sink).__name__,
            allowed="a penstock.connect.sink.Sink such as ps.Delta or ps.Collect",
        )


def _schema_of(node: Node, rows: pl.DataFrame) -> Schema:
    try:
        return of_frame(rows)
    except BadArgument as error:
        raise WrongType(
            node=node.name,
            site=node.site,
            what=f"a column of ({rows.schema})",
            got=error.parameters["got"],
            allowed=error.parameters["allowed"] + "; or declare it with returns={…}",
        ) from error


def _declared(spec: Any) -> Schema | None:
    declared: Schema | None = getattr(spec, "returns", None)
    function = getattr(spec, "function", None)
    if declared is None and isinstance(function, PerEvent):
        return function.returns
    return declared


def _on_nothing(node: Node, schema: Schema) -> pl.DataFrame:
    try:
        made: Any = EVALUATE[type(node.spec)](node.spec, empty(schema))
    except PenstockError:
        raise
    except ColumnNotFoundError as error:
        raise _missing(node, error, schema) from error
    except Exception as error:
        because = f": on no rows it raises {type(error).__name__}: {error}"
        raise SchemaUnknown(node=node.name, site=node.site, because=because) from error
    if not isinstance(made, pl.DataFrame):
        raise WrongType(
            node=node.name,
            site=node.site,
            what=f"what the function of {node.spec.kind} gives",
            got=type(made).__name__,
            allowed="a polars.DataFrame",
        )
    return made


def _missing(node: Node, error: ColumnNotFoundError, schema: Schema) -> MissingColumn:
    text = str(error).strip().splitlines()[0]
    quoted = text.split('"')
    column = quoted[1] if len(quoted) > 2 else text.removeprefix("unable to find column ").split(";")[0]
    column = column.strip("'\" ")
    return MissingColumn(node=node.name, site=node.site, column=column, columns=", ".join(schema) or "none")


def _process_schemas(node: Node, spec: specs.ProcessSpec, inputs: Mapping[str, Schema]) -> dict[str, Schema]:
    if not isinstance(spec.operator, Operator):
        raise WrongType(
            node=node.name,
            site=node.site,
            what="the operator of process",
            got=type(spec.operator).__name__,
            allowed="an instance of a subclass of penstock.Operator",
        )
    declared = {output: schema for output, schema in spec.outputs if schema}
    if spec.returns is not None:
        declared = {OUT: spec.returns, **declared}
    missing = [output for output in spec.output_names() if output not in declared]
    return {**declared, **_schemas_of_emissions(node, spec, inputs, missing)} if missing else declared


def _schemas_of_emissions(
    node: Node, spec: specs.ProcessSpec, inputs: Mapping[str, Schema], outputs: Iterable[str]
) -> dict[str, Schema]:
    """The columns of outputs that declare none, by what the operator emits there when it gets no rows."""
    seen, schema = _Seen(), Schema()
    try:
        state = spec.operator.init_state()
        for name, schema in inputs.items():
            returned = spec.operator.process_input(name, empty(schema), state, seen)
            state = state if returned is None else returned
    except PenstockError:
        raise
    except ColumnNotFoundError as error:
        raise _missing(node, error, schema) from error
    except Exception as error:
        because = f": on no rows it raises {type(error).__name__}: {error}"
        raise SchemaUnknown(node=node.name, site=node.site, because=because) from error
    for output in outputs:
        if output not in seen.rows:
            raise SchemaUnknown(
                node=node.name, site=node.site, because=f": it emits nothing on '{output}' then"
            )
    return {output: _schema_of(node, seen.rows[output]) for output in outputs}


class _Seen:
    """An emitter that only looks at the columns."""

    def __init__(self) -> None:
        self.rows: dict[str, pl.DataFrame] = {}

    def __call__(self, rows: pl.DataFrame) -> None:
        self.rows[OUT] = rows

    def to(self, output: str, rows: pl.DataFrame) -> None:
        self.rows[output] = rows

    def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None: ...

    def columns(self, output: str = OUT) -> Schema:
        return Schema()
