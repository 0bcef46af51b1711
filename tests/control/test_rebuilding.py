"""A run that another Python has made goes on from its sources; only what really changed counts as changed."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from tests.control.making_runs import made_elsewhere, make_run
from tests.upgrades import shop

import penstock as ps
from penstock.cli.loading import load
from penstock.cli.savepoint import drop_state
from penstock.connect.sealed import digest
from penstock.control.changes import plan_change
from penstock.control.checkpoint import read_offset
from penstock.control.forgetting import forget_state
from penstock.control.mending import let_mended_code_run
from penstock.control.rebuilding import prepare, stored_program
from penstock.control.restoring import later_epochs, restore
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoint_diff import compare
from penstock.control.savepoints import create
from penstock.control.shipping import dumps, loads
from penstock.control.version_record import made_by, record_of
from penstock.errors import RunDirectoryBroken, VersionNotLoadable
from penstock.plan import plan

Load = Callable[..., ps.Topology]


@pytest.fixture
def shop_with(tmp_path: Path) -> Iterator[Load]:
    """The shop's topology from a copy of its file, with words replaced: an edited app."""
    count = 0

    def load(*changes: tuple[str, str]) -> ps.Topology:
        nonlocal count
        count += 1
        source = shop.APP.read_text()
        for before, after in changes:
            assert before in source
            source = source.replace(before, after)
        path = tmp_path / f"app{count}" / "stored_shop.py"
        path.parent.mkdir()
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("stored_shop", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["stored_shop"] = module
        spec.loader.exec_module(module)
        top: ps.Topology = module.top
        return top

    yield load
    sys.modules.pop("stored_shop", None)


def contents(run: RunDirectory) -> dict[str, str]:
    files = sorted(path for path in run.path.rglob("*") if path.is_file())
    return {str(path): hashlib.md5(path.read_bytes()).hexdigest() for path in files}


def test_a_version_of_another_python_is_not_loaded_and_says_what_to_do(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    with pytest.raises(VersionNotLoadable) as caught:
        run.load(1)
    assert caught.value.parameters["version"] == 1
    assert "3.10.4" in caught.value.parameters["what"]
    assert "stored_shop.py" in caught.value.parameters["next_step"]


def test_byte_code_of_another_python_is_refused_even_if_it_could_be_unpickled(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    body = dumps(plan(shop_with()))
    (run.path / "versions" / "000001.program").write_bytes(digest(body) + body)
    with pytest.raises(VersionNotLoadable):
        run.load(1)


def test_an_unchanged_topology_is_rebuilt_with_what_the_version_says_of_its_state(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    present = plan(shop_with())
    before = (run.path / "versions" / "000001.program").read_bytes()
    prepare(run, present)
    rebuilt = run.load(1)
    assert rebuilt.graph.same_as(present.graph)
    assert rebuilt.born == {"totals": 7, "visitors": 3}
    assert rebuilt.depth == present.depth
    assert rebuilt.schemas == present.schemas
    assert not plan_change(stored_program(run, 1, present), present, version=2)
    assert (run.path / "versions" / "000001.program").read_bytes() == before  # for the way back
    assert run.versions() == [1]


@pytest.mark.parametrize(
    ("before", "after", "node"),
    [
        (
            "state[user] = state.get(user, 0) + amount",
            "state[user] = state.get(user, 0) + amount + 1",
            "ledger",
        ),
        ("self.count += 1", "self.count += 2", "visitors"),
        ("scaled(2)", "scaled(3)", "doubled"),
        ("CHEAPEST = 3", "CHEAPEST = 4", "large"),
        ('"amount": n % 10', '"amount": n % 11', "orders"),
        ('amount=ps.sum("amount")', 'amount=ps.max("amount")', "minutes"),
    ],
)
def test_a_change_that_comes_with_the_upgrade_is_the_only_one_that_is_planned(
    tmp_path: Path, shop_with: Load, before: str, after: str, node: str
) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    present = plan(shop_with((before, after)))
    prepare(run, present)
    change = plan_change(stored_program(run, 1, present), present, version=2)
    assert {name.removesuffix(".combine") for name, _ in change.swapped} == {node}
    assert (change.lost, change.added, change.removed) == ((), (), ())
    assert change.program.born["totals"] == 7


def test_state_that_would_be_lost_is_told_after_an_upgrade_too(tmp_path: Path, shop_with: Load) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    changes = [
        ('large.key_by("user").process("ledger", Ledger(), parallelism=2)',
         'large.key_by("user").process("ledger", Ledger(), parallelism=3)'),
        ('large.key_by("user").process("totals"', 'large.key_by("amount").process("totals"'),
        ("class Visitors(ps.Operator):\n", "class Visitors(ps.Operator):\n    state_version = 2\n"),
    ]  # fmt: skip
    present = plan(shop_with(*changes))
    lost = dict(plan_change(stored_program(run, 1, present), present, version=2).lost)
    assert lost == {
        "ledger": "2 slices become 3",
        "totals": "its rows are routed by other keys",
        "visitors": "state version 1 becomes 2 and there is no migrate_state",
    }


def test_an_unfinished_epoch_runs_again_under_the_rebuilt_version(tmp_path: Path, shop_with: Load) -> None:
    run = made_elsewhere(tmp_path, shop_with(), committed=2)
    prepare(run, plan(shop_with()))
    version = read_offset(run.checkpoint, 2)["version"]
    assert run.load(version).graph.name == "stored-shop"


def test_an_unfinished_epoch_of_other_sources_is_refused_before_anything_is_touched(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with(), committed=2)
    before = contents(run)
    with pytest.raises(VersionNotLoadable) as caught:
        prepare(run, plan(shop_with(("scaled(2)", "scaled(3)"))))
    assert "doubled" in caught.value.parameters["what"]
    assert "caught-up" in caught.value.parameters["next_step"]
    assert contents(run) == before


def test_code_that_failed_under_the_other_python_may_be_mended_with_the_upgrade(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with(), committed=2)
    run.note_failed(2, "code")
    present = plan(shop_with(("scaled(2)", "scaled(3)")))
    prepare(run, present)
    change = plan_change(stored_program(run, 1, present), present, version=2)
    run.store(2, change.program)
    let_mended_code_run(run, change)
    assert read_offset(run.checkpoint, 2)["version"] == 2


def test_code_without_a_source_counts_as_changed_and_keeps_its_state(tmp_path: Path, shop_with: Load) -> None:
    def topology() -> ps.Topology:
        top = shop_with()
        names: dict[str, Any] = {}
        exec("def typed_in(df):\n    return df", names)
        large = ps.Topology("stored-shop", top.graph)
        from penstock.topology.stream import Stream

        Stream(large, "doubled").map("typed-in", names["typed_in"]).sink("out-typed", ps.Collect())
        return large

    run = made_elsewhere(tmp_path, topology())
    present = plan(topology())
    change = plan_change(stored_program(run, 1, present), present, version=2)
    assert change.swapped == (("typed-in", "logic or parameters"),)
    assert change.lost == ()


def test_expressions_that_another_polars_writes_otherwise_are_told_by_their_words(
    tmp_path: Path, shop_with: Load
) -> None:
    def differently(run: RunDirectory) -> None:
        record = run.version_files.record(1)
        assert record is not None
        nodes = [replace(n, exact="0" * 16) if n.exact != n.worded else n for n in record.nodes]
        assert nodes != list(record.nodes)
        run.version_files.store_record(1, replace(record, nodes=tuple(nodes)))

    run = made_elsewhere(tmp_path, shop_with(), python="3.10.4", polars="1.99.0")
    differently(run)
    same, edited = plan(shop_with()), plan(shop_with(("CHEAPEST = 3", "CHEAPEST = 3  # edited")))
    assert not plan_change(stored_program(run, 1, same), same, version=2)
    change = plan_change(stored_program(run, 1, edited), edited, version=2)
    assert change.swapped == (("large", "logic or parameters"),)  # words may be abridged: files must be equal


def test_a_newer_library_alone_changes_nothing(tmp_path: Path, shop_with: Load) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    program = plan(shop_with())
    run.store(1, program)
    record = record_of(program)
    run.version_files.store_record(1, replace(record, made_by={**made_by(), "numpy": "2.0.0"}))
    present = plan(shop_with())
    prepare(run, present)
    assert not plan_change(stored_program(run, 1, present), present, version=2)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Python 3.11 has made the stored run")
def test_a_version_of_an_earlier_penstock_gets_a_record_for_the_next_upgrade(
    tmp_path: Path, shop_with: Load
) -> None:
    run = RunDirectory(shop.unpack(shop.RUN, tmp_path / "run"))
    assert run.version_files.record(1) is None
    present = plan(shop_with())
    prepare(run, present)
    record = run.version_files.record(1)
    assert record is not None
    assert {node.name: node.exact for node in record.nodes} == {
        node.name: node.exact for node in record_of(present).nodes
    }
    assert record.decoded_placement()["born"] == run.load(1).born


def test_a_version_without_a_record_by_another_python_is_refused_with_the_way(
    tmp_path: Path, shop_with: Load
) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    body = cloudpickle.dumps({"search_path": ["/usr/lib/python310.zip"], "body": b"noise"})
    (run.path / "versions" / "000001.program").write_bytes(digest(body) + body)
    (run.path / "versions" / "000001.record.json").unlink()
    before = contents(run)
    with pytest.raises(VersionNotLoadable) as caught:
        prepare(run, plan(shop_with()))
    assert "3.10" in caught.value.parameters["what"]
    assert contents(run) == before


def test_what_cannot_be_unpickled_is_told_and_what_is_damaged_is_told_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    path = run.path / "versions" / "000001.program"
    whole = path.read_bytes()
    body = cloudpickle.dumps({"search_path": [], "body": b"noise"})
    path.write_bytes(digest(body) + body)
    with pytest.raises(VersionNotLoadable):
        run.load(1)
    path.write_bytes(whole[:-1])
    with pytest.raises(RunDirectoryBroken):
        run.load(1)


def test_a_version_that_the_same_python_can_no_longer_load_is_rebuilt(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with(), **made_by())  # as after a Penstock that moved its modules
    present = plan(shop_with())
    prepare(run, present)
    assert run.load(1).born == {"totals": 7, "visitors": 3}
    assert not plan_change(stored_program(run, 1, present), present, version=2)


def test_a_build_of_this_python_is_taken_before_the_original(tmp_path: Path, shop_with: Load) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    program = plan(shop_with())
    run.version_files.store_build(1, program)
    assert run.load(1).graph.name == "stored-shop"


MORE = """
import polars as pl
import penstock as ps
from penstock.cli.loading import load
from penstock.cli.savepoint import drop_state
def make(first, count):
    return pl.DataFrame({"a": pl.int_range(first, first + count, eager=True)})
def by_rest(df):
    return df["a"] % 4
def native(df):
    return df.where("a > 1")
class Counts(ps.Operator):
    returns = {"n": int}
    def init_state(self):
        return 0
    def process(self, batch, state, emit):
        return state + 1
class Exporting(Counts):
    def export_state(self, state):
        return bytes([state])
    def import_state(self, blob):
        return blob[0]
top = ps.Topology("more")
one = top.source("one", ps.Generator(make, schema={"a": int}, rows=9))
two = top.source("two", ps.Generator(make, schema={"a": int}, rows=9))
both = one.union("both", two).flat_map("flat", lambda df: df.head(2))
both.dataframe("native", native, returns={"a": int}).sink("out", ps.Collect())
placed = top.source("three", ps.Generator(make, schema={"a": int}, rows=9)).partition_by(by_rest)
placed.process("counts", Exporting(), parallelism=4).sink("out-counts", ps.Collect())
"""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a > 1", "a > 2", "refused: the Spark DataFrame nodes differ"),
        ("% 4", "% 2", "! counts: state LOST (its rows are routed by other keys)"),
        ("head(2)", "head(3)", "~ flat: logic or parameters"),
        ('dataframe("native"', 'dataframe("other"', "refused: the Spark DataFrame nodes differ"),
        ("Exporting()", "Counts()", "state LOST (its state is exported in another way"),
        ('source("two"', 'source("four"', "- two"),
        ("return state + 1", "return state + 2", "~ counts: logic or parameters"),
    ],
)
def test_a_plan_after_an_upgrade_says_what_a_plan_before_it_says(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    tops = []
    for name, source in (("first", MORE), ("second", MORE.replace(before, after))):
        path = tmp_path / name / "more_app.py"
        path.parent.mkdir()
        path.write_text(source)
        tops.append(plan(load(str(path))))
        sys.modules.pop("more_app")
    stored, present = tops
    run = RunDirectory(tmp_path / "run")
    run.open("more")
    run.store(1, stored)
    usual = plan_change(run.load(1), present, version=2)
    record = run.version_files.record(1)
    assert record is not None
    run.version_files.store_record(1, replace(record, made_by={**made_by(), "python": "3.10.4"}))
    assert str(plan_change(stored_program(run, 1, present), present, version=2)) == str(usual)
    assert told in str(usual)


@dataclass(frozen=True, slots=True)
class LaterSource:
    """A source whose class has got two fields since the version was stored."""

    schema: Any
    bound: int = 7
    names: list[str] = field(default_factory=list)

    def __reduce__(self) -> Any:
        """Be pickled as the class before was."""
        return as_before, (self.schema,)


def as_before(schema: Any) -> LaterSource:
    made = object.__new__(LaterSource)
    object.__setattr__(made, "schema", schema)
    return made


def test_fields_that_were_added_since_a_version_was_stored_have_their_defaults() -> None:
    graph = plan(shop.topology()).graph
    source = LaterSource(graph["orders"].spec.source.schema)  # type: ignore[attr-defined]
    spec = replace(graph["orders"].spec, source=source)  # type: ignore[call-arg]
    nodes = {**graph.nodes, "orders": replace(graph["orders"], spec=spec)}
    program = replace(plan(shop.topology()), graph=replace(graph, nodes=nodes))
    del program.__dict__["born"]
    loaded = loads(dumps(program))
    assert loaded.born == {}
    assert (loaded.sources["orders"].source.bound, loaded.sources["orders"].source.names) == (7, [])


def test_a_run_of_another_python_is_saved_compared_restored_and_rebuilt(
    tmp_path: Path, shop_with: Load
) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    first = create(run.path, to=tmp_path / "first")
    assert "ledger" in first.manifest.description
    assert first.manifest.topology == "totals"
    record = run.version_files.record(1)
    assert record is not None
    other = [replace(n, exact="0" * 16) if n.name == "ledger" else n for n in record.nodes]
    run.version_files.store_record(1, replace(record, nodes=tuple(other)))
    second = create(run.path, to=tmp_path / "second")
    lines = compare(first, second).splitlines()
    assert [line for line in lines if line.startswith("  ~")] == ["  ~ ledger: logic or parameters"]
    assert set(later_epochs(first)) == set(shop.SINKS)
    assert all("3.10.4" in words for words in later_epochs(first).values())
    back = restore(first, tmp_path / "back")
    prepare(back, plan(shop_with()))
    assert back.load(1).born == {"totals": 7, "visitors": 3}


def test_state_of_a_node_is_dropped_in_a_run_of_another_python(tmp_path: Path, shop_with: Load) -> None:
    run = made_elsewhere(tmp_path, shop_with())
    drop_state(run.path, ["ledger"], shop_with())
    assert run.load(run.current()).born == {"totals": 7, "visitors": 3, "ledger": 2}


def test_a_version_without_its_state_can_be_rebuilt_although_its_sources_are_edited(
    tmp_path: Path, shop_with: Load
) -> None:
    top = shop_with()
    run = make_run(tmp_path / "run", ps.Collect())
    run.store(1, plan(top))
    path = Path(top.graph["ledger"].site.file)
    path.write_text(path.read_text().replace("self.count += 1", "self.count += 2"))  # not started yet
    forget_state(run, ["ledger"])
    before, after = (run.version_files.record(version) for version in (1, 2))
    assert before is not None
    assert after is not None
    assert after.nodes == before.nodes
    assert after.decoded_placement()["born"]["ledger"] == 2
