"""What fuzzing has found stays mended, and the fuzzer itself finds what it should."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.errors import InternalError
from penstock.net import _tcp_layout
from tests.fuzz import heavy, mass, whole_path
from tests.fuzz.mutation import Mutator
from tests.fuzz.seeds import seeds
from tests.fuzz.worker import engines

pytestmark = pytest.mark.long
FINDINGS = sorted((Path(__file__).parent / "findings").glob("*"))


def test_the_seeds_go_the_whole_way_and_reach_every_part(tmp_path: Path) -> None:
    found = whole_path.follow(seeds(), engines())
    assert min(found.packets, found.flows, found.stream_bytes, found.control) > 10
    whole_path.inspect_as_file(seeds()[0], tmp_path)


def test_a_number_gives_the_same_mutation_each_time() -> None:
    corpus = seeds()
    made = [Mutator(corpus, 1).made(number) for number in range(200)]
    assert made == [Mutator(corpus, 1).made(number) for number in range(200)]
    assert len(set(made)) > 190
    assert made != [Mutator(corpus, 2).made(number) for number in range(200)]


def test_some_mutated_captures_go_the_whole_way() -> None:
    mutator = Mutator(seeds(), 7)
    whole_path.follow([mutator.made(number) for number in range(2000)], engines())


def test_inputs_that_kill_a_worker_are_found_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mass, "_COMPILING_S", 0)
    lab = mass.Lab(tmp_path, 1, tmp_path, worker="tests.fuzz.failing_worker", silence_s=1)
    ran = mass.search(lab, [range(n, n + 16) for n in range(0, 128, 16)], lambda _: True)
    assert ran.inputs == 128 - 3 * 16
    assert [batch for batch, _ in ran.failed] == [range(32, 48), range(48, 64), range(80, 96)]
    signals = [why.partition("\n")[0] for _, why in ran.failed]
    assert signals == ["signal 11", "exit 1", "signal 9"]
    assert "IndexError: behind the end" in ran.failed[1][1]
    assert [mass.shrunk(lab, batch) for batch, _ in ran.failed[:2]] == [[37], [61]]


def test_captures_that_fill_the_state_go_the_whole_way_and_give_little_before_their_end() -> None:
    made = [heavy.capture(random.Random(number)) for number in range(150)]
    found = whole_path.follow(made, engines(), tail=heavy.TAIL)
    assert min(found.packets, found.flows, found.stream_bytes) > 100


def test_heavy_inputs_find_a_size_that_is_derived_from_the_batch_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [heavy.Heavy(1).made(number) for number in range(64)]
    whole_path.follow(made, ("builtin",), tail=heavy.TAIL)
    monkeypatch.setattr(_tcp_layout, "most_pieces", lambda held, segments: held + 4 * segments + 8)
    with pytest.raises(InternalError) as error:
        whole_path.follow(made, ("builtin",), tail=heavy.TAIL)
    assert "TCP pieces that wait" in error.value.parameters["what"]


@pytest.mark.parametrize("finding", FINDINGS, ids=[path.name for path in FINDINGS])
def test_what_was_found_once_goes_the_whole_way(finding: Path, tmp_path: Path) -> None:
    capture = finding.read_bytes()
    whole_path.follow([capture], engines())
    for tail in (1, 2):
        whole_path.follow([capture], engines(), tail=tail)
    whole_path.inspect_as_file(capture, tmp_path)
