"""What every operator must keep to, as checks that any implementation runs through.

check_operator(lambda: MyOperator(), [first_epoch, second_epoch])
"""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import cloudpickle
import polars as pl

from penstock.connect.collect import Collect
from penstock.connect.source import END_OF_TIME
from penstock.engine.counters import Counters
from penstock.engine.saving import WAYS
from penstock.engine.slice_run import Arrival, SliceRun
from penstock.engine.slice_state import Held
from penstock.engine.state_log import Head
from penstock.frames.frame import encode
from penstock.frames.types import empty, of_frame
from penstock.operators.boundary import Boundary
from penstock.operators.operator import Operator, overrides
from penstock.plan.passes import Draft, infer_schemas
from penstock.plan.program import Program
from penstock.testing.elsewhere import run_elsewhere
from penstock.testing.engine import MemoryShelf
from penstock.topology import specs
from penstock.topology.fingerprint import fingerprint
from penstock.topology.graph import OUT, Edge, Graph, Node
from penstock.topology.routes import ToOne
from penstock.topology.schema import Schema

Epoch = pl.DataFrame | Mapping[str, pl.DataFrame]
NODE = "operator"


def check_operator(
    make: Callable[[], Operator],
    batches: Sequence[Epoch],
    *,
    input: str = "in",
    times: Sequence[dt.datetime | None] = (),
    same_for: Literal["frames", "epochs"] = "frames",
    processes: Literal[1, 2] = 2,
) -> dict[str, pl.DataFrame]:
    """Run an operator over the same epochs in every way that Spark might; return what it emitted.

    ``batches`` has the rows of one epoch each, for ``input`` or by the inputs' names; ``times`` the
    punctuation after each. Whatever happens between epochs or on the way to the slice, output and
    state must be the same, in the same order. ``same_for="epochs"`` asks for more: the same rows
    and state also if the input is cut into other epochs. ``processes=1`` leaves out the run in
    another process, which takes about a second.
    """
    story = Story(make, [_by_input(batch, input) for batch in batches], times)
    story.check_export()
    story.check_empty_batches()
    plain = story.run()
    for what, way in (
        ("is run a second time: it depends on more than its input and state", Way()),
        ("gets its frames cut differently and in another order", Way(cut=2, seed=7)),
        ("works on state that was exported and imported between the epochs", Way(keep_decoded=False)),
        ("is a new copy in every epoch: it keeps state in attributes", Way(new_copies=True)),
        ("is a new copy with imported state in every epoch", Way(keep_decoded=False, new_copies=True)),
        ("runs every epoch twice, the first time in vain", Way(repeats=True)),
    ):
        _assert_same(story.run(way), plain, f"{story.name} gives something else when it {what}")
    if same_for == "epochs":
        story.check_epoch_cuts(plain)
    if processes == 2:
        elsewhere: Outcome = run_elsewhere(story.run, Way(keep_decoded=False))
        text = f"{story.name} gives something else in another process: perhaps it iterates over a set"
        _assert_same(elsewhere, plain, text)
    return plain.rows


@dataclass(frozen=True, slots=True)
class Way:
    """What happens to an epoch on its way."""

    cut: int | None = None
    """Rows per frame."""
    seed: int | None = None
    keep_decoded: bool = True
    new_copies: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operator emitted, and the state that its log holds at the end."""

    rows: dict[str, pl.DataFrame]
    state: Any


class Story:
    """The epochs of one slice, told to an operator in any way."""

    def __init__(
        self,
        make: Callable[[], Operator],
        epochs: list[dict[str, pl.DataFrame]],
        times: Sequence[dt.datetime | None],
    ) -> None:
        if not epochs:
            raise ValueError("check_operator needs at least one epoch")
        operator = make()
        assert isinstance(operator, Operator), f"{type(operator).__name__} must be a penstock.Operator"
        self.name = type(operator).__name__
        try:
            self._pickled = cloudpickle.dumps(operator)
            cloudpickle.loads(self._pickled)
        except Exception as error:
            text = f"{self.name} must survive cloudpickle: {type(error).__name__}: {error}"
            raise AssertionError(text) from error
        self._program = _program(operator, epochs)
        ends = [END_OF_TIME] if overrides(operator, "on_punctuation") else []
        told = [None if time is None else _microseconds(time) for time in times]
        self._times = [*told, *[None] * (len(epochs) - len(times)), *ends]
        self._epochs = [*epochs, *({} for _ in ends)]

    def run(self, way: Way | None = None, *, epochs: list[dict[str, pl.DataFrame]] | None = None) -> Outcome:
        """Tell the whole story once."""
        way = way or Way()
        made: list[tuple[str, pl.DataFrame]] = []
        shelf, held = MemoryShelf(), None
        program = self._with_copy()
        times = self._times if epochs is None else [*[None] * (len(epochs) - 1), *self._times[-1:]]
        for number, (epoch, time) in enumerate(zip(epochs or self._epochs, times, strict=True)):
            program = self._with_copy() if way.new_copies else program
            if way.repeats:
                _, held = _run_epoch(program, number, epoch, time, copy.deepcopy(shelf), held, way)
            emitted, held = _run_epoch(program, number, epoch, time, shelf, held, way)
            held = held if way.keep_decoded else None
            made += emitted
        return Outcome(self._joined(made), self._exported(program, shelf))

    def check_export(self) -> None:
        """Assert that the operator's own export has the form that is asked for."""
        operator = self._operator(self._with_copy())
        if not overrides(operator, "export_state"):
            return
        assert overrides(operator, "import_state"), f"{self.name} has export_state and needs import_state"
        made: Any = operator.export_state(operator.init_state())
        is_chunks = isinstance(made, dict) and all(
            isinstance(name, str) and isinstance(chunk, bytes | None) for name, chunk in made.items()
        )
        assert isinstance(made, bytes) or is_chunks, (
            f"{self.name}.export_state must give bytes, or a dict of bytes (None: gone): got {made!r:.200}"
        )

    def check_empty_batches(self) -> None:
        """Assert that batches without rows neither fail nor change the state."""
        operator = self._operator(self._with_copy())
        node = self._program.graph[NODE]
        state = operator.init_state()
        before = _comparable(copy.deepcopy(state))
        for edge in node.inputs:
            nothing = empty(self._program.input_schema(edge))
            try:
                returned: Any = operator.process_input(edge.input, nothing, state, _Nowhere(self._program))
            except Exception as error:
                text = f"{self.name} must take a batch without rows: {type(error).__name__}: {error}"
                raise AssertionError(text) from error
            state = state if returned is None else returned
        same = _is_same(_comparable(state), before)
        assert same, f"{self.name} must not change its state for a batch without rows"

    def check_epoch_cuts(self, plain: Outcome) -> None:
        """Assert that the same rows in other epochs come to the same."""
        names = list(dict.fromkeys(name for epoch in self._epochs for name in epoch))
        assert len(names) == 1, 'same_for="epochs" is for operators with one input'
        rows = pl.concat([epoch[names[0]] for epoch in self._epochs if names[0] in epoch])
        for size in (1, 3, max(1, rows.height)):
            epochs = [{names[0]: part} for part in rows.iter_slices(size)]
            found = self.run(epochs=epochs)
            text = f"{self.name} gives something else when epochs have {size} rows"
            _assert_same(_unordered(found), _unordered(plain), text)

    def _with_copy(self) -> Program:
        node = self._program.graph[NODE]
        spec = replace(node.spec, operator=cloudpickle.loads(self._pickled))  # type: ignore[call-arg]
        nodes = {**self._program.graph.nodes, NODE: replace(node, spec=spec)}
        return replace(self._program, graph=replace(self._program.graph, nodes=nodes))

    @staticmethod
    def _operator(program: Program) -> Operator:
        operator: Operator = program.graph[NODE].spec.operator  # type: ignore[attr-defined]
        return operator

    def _joined(self, made: list[tuple[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
        outputs = {name: schema for (node, name), schema in self._program.schemas.items() if node == NODE}
        return {
            name: pl.concat([empty(schema), *(rows for output, rows in made if output == name)])
            for name, schema in outputs.items()
        }

    def _exported(self, program: Program, shelf: MemoryShelf) -> Any:
        packed = shelf.head()
        if packed is None:
            return None
        head = Head.unpack(packed)
        return _comparable(WAYS[head.way](self._operator(program)).exported(shelf, head))


def _run_epoch(
    program: Program, number: int, epoch: dict[str, pl.DataFrame], time: int | None, shelf: MemoryShelf,
    held: Held | None, way: Way,
) -> tuple[list[tuple[str, pl.DataFrame]], Held | None]:  # fmt: skip
    arrivals = []
    for name, rows in epoch.items():
        parts = rows.iter_slices(way.cut or max(1, rows.height)) if rows.height else []
        arrivals += [Arrival(name, "source", i, encode(part.rechunk())) for i, part in enumerate(parts)]
    if way.seed is not None:
        random.Random(way.seed + number).shuffle(arrivals)
    run = SliceRun(program, program.graph[NODE], 0, Boundary(number, None), Counters())
    departures, held = run.run(arrivals, time, shelf, held)
    return [(d.edge.output, d.rows) for d in departures], held


def _program(operator: Operator, epochs: list[dict[str, pl.DataFrame]]) -> Program:
    """A source per input, the operator, and a sink per output."""
    schemas = {name: of_frame(rows) for epoch in epochs for name, rows in epoch.items()}
    named = {name: Schema.of(columns) for name, columns in (operator.outputs or {}).items()}
    returns = None if operator.returns is None else Schema.of(operator.returns)
    spec = specs.ProcessSpec(operator, returns, tuple(named.items()))
    edges = tuple(Edge(f"source.{name}", input=name, route=ToOne()) for name in schemas)
    nodes = [
        *(Node(f"source.{name}", specs.SourceSpec(_Rows(schema))) for name, schema in schemas.items()),
        Node(NODE, spec, edges),
        *(Node(f"sink.{o}", specs.SinkSpec(Collect()), (Edge(NODE, o),)) for o in spec.output_names()),
    ]
    graph = Graph.of("check-operator", nodes)
    return Program(graph, infer_schemas(Draft(graph)).schemas, {})


@dataclass(frozen=True)
class _Rows:
    """Stands for a source that is never read."""

    schema: Schema
    time: None = None
    planner: None = None


@dataclass(frozen=True)
class _Nowhere:
    """Takes what is emitted and forgets it."""

    program: Program

    def __call__(self, rows: pl.DataFrame) -> None: ...

    def to(self, output: str, rows: pl.DataFrame) -> None: ...

    def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None: ...

    def columns(self, output: str = OUT) -> Schema:
        return self.program.schemas[NODE, output]


def _by_input(batch: Epoch, input_: str) -> dict[str, pl.DataFrame]:
    return {input_: batch} if isinstance(batch, pl.DataFrame) else dict(batch)


def _microseconds(time: dt.datetime) -> int:
    return (time.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def _comparable(state: Any) -> Any:
    """A state as values that can be compared: tables by their rows."""
    if isinstance(state, dict):
        return {name: _comparable(part) for name, part in state.items()}
    rows: Any = state.frame() if hasattr(state, "export_delta") else state
    return (tuple(rows.schema.items()), rows.rows()) if isinstance(rows, pl.DataFrame) else rows


def _is_same(one: Any, other: Any) -> bool:
    equal = one == other
    return equal is True or fingerprint(one) == fingerprint(other)


def _unordered(outcome: Outcome) -> Outcome:
    def sorted_table(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: sorted_table(part[name]) for name in sorted(part, key=repr)}
        is_table = isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], list)
        return (part[0], sorted(part[1], key=repr)) if is_table else part

    rows = {name: frame.select(pl.all().sort_by(*frame.columns)) for name, frame in outcome.rows.items()}
    return Outcome(rows, sorted_table(outcome.state))


def _assert_same(found: Outcome, expected: Outcome, text: str) -> None:
    for name, rows in expected.rows.items():
        got = found.rows[name]
        assert got.equals(rows), f"{text}\noutput '{name}', expected:\n{rows}\ngot:\n{got}"
    same = _is_same(found.state, expected.state)
    assert same, f"{text}\nits state, expected:\n{expected.state!r:.2000}\ngot:\n{found.state!r:.2000}"
