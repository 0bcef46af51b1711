"""The log of a slice's state: damage is found, cost follows the change, failures have an address."""

from __future__ import annotations

import copy
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.accounts import WAYS, Accounts, Chunks, Plain, Table, Table2, Tables, Whole, batch
from tests.engine.test_state_story import ignore

import penstock as ps
from penstock.engine import state_log
from penstock.engine.saving import Containers, OwnBytes, Pickled, way_for
from penstock.engine.slice_state import Held, StateCache, open_state, save_state
from penstock.engine.state_log import DELTAS_AT_MOST, BrokenLog, Head, Shelf, empty_head, wants_base
from penstock.errors import StateDamaged, StateNotRestorable
from penstock.testing.engine import MemoryShelf
from penstock.topology import specs
from penstock.topology.graph import Node


def node_of(operator: Any) -> Node:
    return Node("accounts", specs.ProcessSpec(operator))


def epoch(operator: Any, shelf: Shelf, changes: list[tuple[int, int, bool]], held: Any = None) -> Held:
    held = open_state(node_of(operator), 0, 1, shelf, held)
    if changes:
        returned = operator.process(batch(changes), held.state, ignore)
        held.state = held.state if returned is None else returned
    return save_state(held, shelf, stagger=0)


def view(operator: Accounts, shelf: Shelf) -> dict[int, int]:
    return operator.view(open_state(node_of(operator), 0, 1, shelf, None).state)


def written(operator: Any, epochs: int = 3) -> MemoryShelf:
    """A log of a few epochs."""
    shelf = MemoryShelf()
    for number in range(epochs):
        epoch(operator, shelf, [(number, 5 + number, False), (100, 1, False)])
    return shelf


LOGS = {name: written(first()) for name, (first, _) in WAYS.items()}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=10, deadline=None, database=None)
@given(data=st.data())
def test_a_changed_byte_anywhere_in_the_log_is_found(way: str, data: st.DataObject) -> None:
    shelf = copy.deepcopy(LOGS[way])
    number = data.draw(st.sampled_from(sorted(shelf.values)))
    value = bytearray(shelf.values[number])
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    shelf.values[number] = bytes(value)
    with pytest.raises(StateDamaged):
        view(WAYS[way][0](), shelf)


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_or_cut_value_is_found(way: str) -> None:
    for number in LOGS[way].values:
        for rest in (None, b"", LOGS[way].values[number][:-1]):
            shelf = copy.deepcopy(LOGS[way])
            if rest is None:
                del shelf.values[number]
            else:
                shelf.values[number] = rest
            with pytest.raises(StateDamaged):
                view(WAYS[way][0](), shelf)


def test_a_delta_of_another_history_is_found() -> None:
    shelf, other = written(Table()), MemoryShelf()
    for amount in (1, 2, 3):
        epoch(Table(), other, [(7, amount, False)])
    shelf.values[2] = other.values[2]
    with pytest.raises(StateDamaged):
        view(Table(), shelf)


def test_deltas_in_another_order_are_found() -> None:
    shelf = written(Chunks(), epochs=4)
    shelf.values[1], shelf.values[2] = shelf.values[2], shelf.values[1]
    with pytest.raises(StateDamaged):
        view(Chunks(), shelf)


def test_a_head_of_another_format_is_refused() -> None:
    shelf = written(Plain())
    packed = shelf.head()
    assert packed is not None
    shelf.put_head(b"\x63" + packed[1:])
    with pytest.raises(StateDamaged):
        view(Plain(), shelf)


def test_a_head_comes_back_as_it_was() -> None:
    head = Head(2**64 - 1, 3, -4, 2, 5, 6, 7, 8, 9, 10)
    assert Head.unpack(head.pack()) == head


def test_every_changed_bit_and_every_cut_of_a_head_is_found() -> None:
    packed = written(Plain()).head()
    assert packed is not None
    flipped = [
        bytes([*packed[:i], packed[i] ^ (1 << bit), *packed[i + 1 :]])
        for i in range(len(packed))
        for bit in range(8)
    ]
    for damaged in (*flipped, *(packed[:n] for n in range(len(packed)))):
        with pytest.raises(BrokenLog):
            Head.unpack(damaged)


def test_a_state_whose_head_is_damaged_is_not_taken_for_an_empty_one() -> None:
    shelf = written(Plain())
    packed = shelf.head()
    assert packed is not None
    shelf.put_head(packed[:9] + bytes([packed[9] ^ 1]) + packed[10:])  # the version in which it was born
    with pytest.raises(StateDamaged) as caught:
        view(Plain(), shelf)
    assert {k: caught.value.parameters[k] for k in ("node", "slice")} == {"node": "accounts", "slice": 0}


def test_a_head_of_the_format_before_is_read() -> None:
    shelf = written(Plain())
    packed = shelf.head()
    assert packed is not None
    before = view(Plain(), shelf)
    shelf.put_head(b"\x01" + packed[1:-8])
    assert view(Plain(), shelf) == before


class CountingShelf(MemoryShelf):
    """Adds up what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_written = 0

    def put(self, number: int, value: bytes) -> None:
        self.bytes_written += len(value)
        super().put(number, value)


@pytest.mark.parametrize("operator", [Table(), Tables()], ids=lambda o: type(o).__name__)
def test_an_epoch_writes_what_it_changed_and_not_what_it_holds(operator: Any) -> None:
    costs = {}
    for held_accounts in (1_000, 50_000):
        shelf = CountingShelf()
        held = epoch(operator, shelf, [(n, n, False) for n in range(held_accounts)])
        base = shelf.bytes_written
        shelf.bytes_written = 0
        for _ in range(3):
            held = epoch(operator, shelf, [(n, 1, False) for n in range(10)], held)
        costs[held_accounts] = shelf.bytes_written
        assert base > held_accounts
    assert costs[50_000] < 3_000
    assert costs[50_000] <= costs[1_000] * 1.5


def test_chunks_that_did_not_change_are_not_written() -> None:
    shelf = CountingShelf()
    held = epoch(Chunks(), shelf, [(n, n, False) for n in range(4_000)])
    shelf.bytes_written = 0
    epoch(Chunks(), shelf, [(3, 1, False)], held)
    quarter = len(
        Chunks().export_state({"chunks": {"3": dict.fromkeys(range(3, 4_000, 4), 9)}, "dirty": {"3"}})["3"]
        or b""
    )
    assert shelf.bytes_written < 2 * quarter


@pytest.mark.parametrize("way", WAYS)
def test_an_epoch_that_changes_nothing_writes_nothing(way: str) -> None:
    shelf = copy.deepcopy(LOGS[way])
    before = (dict(shelf.values), shelf.head())
    held = epoch(WAYS[way][0](), shelf, [])
    epoch(WAYS[way][0](), shelf, [], held)
    assert (dict(shelf.values), shelf.head()) == before


def test_the_log_is_compacted_when_the_deltas_outweigh_the_base_or_are_many() -> None:
    head = Head(1, 1, 1, 0, 0, 1, 1_000_000, 3, 900_000, 4)
    assert wants_base(empty_head(1, 1, 0), 0)
    assert not wants_base(head, 0)
    assert wants_base(
        copy.replace(head, delta_bytes=1_000_001) if hasattr(copy, "replace") else _heavier(head), 0
    )
    due = {
        wants_base(Head(1, 1, 1, 0, 0, 1, 10**9, DELTAS_AT_MOST + 20, 1, 400), stagger)
        for stagger in range(120)
    }
    assert due == {True, False}  # slices do not all compact in the same epoch


def _heavier(head: Head) -> Head:
    from dataclasses import replace

    return replace(head, delta_bytes=1_000_001)


def test_a_large_base_is_kept_in_several_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "CHUNK_BYTES", 100)
    shelf = MemoryShelf()
    held = epoch(Plain(), shelf, [(n, n, False) for n in range(200)])
    assert held.head.base_values > 3
    assert max(map(len, shelf.values.values())) <= 100
    assert view(Plain(), shelf) == {n: n for n in range(200)}
    epoch(Plain(), shelf, [(1, 1, False)], held)
    assert view(Plain(), shelf)[1] == 2


def test_a_container_that_took_anothers_place_is_written_as_a_whole() -> None:
    class Renewed(Table):
        """Begins with a new table in every batch."""

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
            fresh = self.init_state()
            super().process(batch, fresh, emit)
            return fresh

    shelf, held = MemoryShelf(), None
    for account in range(3):
        held = epoch(Renewed(), shelf, [(account, 5, False)], held)
    assert view(Renewed(), shelf) == {2: 5}


def test_a_dict_of_containers_may_get_and_lose_containers() -> None:
    class Named(Tables):
        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
            for account, amount, close in batch.iter_rows():
                name = f"account {account}"
                if close:
                    del state[name]
                else:
                    table = state.setdefault(name, Table().init_state())
                    table.add("total", table.rows([pl.Series([account])]), amount)

        def view(self, state: Any) -> dict[int, int]:
            return {a: t for table in state.values() for a, t in Table().view(table).items()}

    shelf, held = MemoryShelf(), None
    for changes in ([(1, 5, False)], [(2, 6, False)], [(1, 1, False)], [(2, 0, True)]):
        held = epoch(Named(), shelf, changes, held)
        assert view(Named(), shelf) == Named().view(held.state)
    assert view(Named(), shelf) == {1: 6}


def test_a_lagging_cache_catches_up_from_the_deltas_alone() -> None:
    shelf = MemoryShelf()
    lagging = epoch(Table(), shelf, [(1, 1, False)])
    state = lagging.state
    epoch(Table(), shelf, [(1, 1, False)], copy.deepcopy(lagging))
    opened = open_state(node_of(Table()), 0, 1, shelf, lagging)
    assert opened.state is state  # brought up to date in place, not decoded again
    assert Table().view(opened.state) == {1: 2}


@pytest.mark.parametrize(
    ("operator", "way"),
    [
        (Table(), Containers),
        (Tables(), Containers),
        (Plain(), Pickled),
        (Whole(), OwnBytes),
        (Chunks(), OwnBytes),
    ],
    ids=lambda v: getattr(v, "__name__", type(v).__name__),
)
def test_the_operators_class_decides_how_its_state_is_saved(operator: Any, way: Any) -> None:
    assert way_for(operator) is way


def test_an_operator_without_state_writes_nothing() -> None:
    class Stateless(ps.Operator):
        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None: ...

    shelf = MemoryShelf()
    epoch(Stateless(), shelf, [(1, 1, False)])
    assert shelf.head() is None


def test_state_of_another_layout_without_a_migration_stops_with_the_address() -> None:
    class Table3(Table):
        state_version = 3

    with pytest.raises(StateNotRestorable) as caught:
        view(Table3(), written(Table()))
    assert caught.value.condition == "STATE_NOT_RESTORABLE"
    assert {k: caught.value.parameters[k] for k in ("node", "slice")} == {"node": "accounts", "slice": 0}


def test_a_table_whose_columns_changed_without_a_new_version_is_not_restorable() -> None:
    class Renamed(Table):
        value = "other"

    with pytest.raises(StateNotRestorable):
        view(Renamed(), written(Table()))


def test_a_migrated_state_is_written_in_its_new_layout() -> None:
    shelf = written(Table())
    before = view(Table(), shelf)
    held = epoch(Table2(), shelf, [])
    assert held.head.layout == 2
    assert view(Table2(), shelf) == before


@pytest.mark.parametrize("made", ["text", 5, None])
def test_an_export_that_is_not_bytes_is_refused(made: Any) -> None:
    class Odd(Plain):
        def export_state(self, state: Any) -> Any:
            return made

    with pytest.raises(TypeError):
        epoch(Odd(), MemoryShelf(), [(1, 1, False)])


def test_the_cache_lets_go_of_the_states_used_longest_ago() -> None:
    def held(base_bytes: int) -> Held:
        head = Head(1, 1, 1, 1, 0, 1, base_bytes, 0, 0, 1)
        return Held(head, "logic", Pickled(Plain()), {"plain": "state"})

    cache = StateCache(100)
    for number in range(3):
        cache.put(("run", "n", number), held(40))
    assert cache.take(("run", "n", 0)) is None
    assert cache.take(("run", "n", 2)) is not None
    for _ in range(5):
        cache.put(("run", "n", 1), held(40))
    cache.put(("run", "n", 2), held(40))
    assert cache.take(("run", "n", 1)) is not None
    cache.put(("run", "n", 9), held(10_000))
    assert cache.take(("run", "n", 9)) is not None  # the newest stays however large it is
