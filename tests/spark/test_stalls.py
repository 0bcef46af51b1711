"""An epoch that makes no progress is reported with the stacks of its workers, and is left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.control.incidents import since_progress
from penstock.spark.stalls import StallClock, incident_of, limit_after, stays


def _reports(looks: list[tuple[float, int | None]], limit_s: float = 60.0) -> list[tuple[float, float]]:
    clock = StallClock()
    found = [(now, clock.look(now, epoch=epoch, limit_s=lambda: limit_s)) for now, epoch in looks]
    return [(now, taken) for now, taken in found if taken is not None]


def test_an_epoch_is_reported_at_its_limit_and_again_when_twice_the_time_has_passed() -> None:
    reports = _reports([(float(now), 7) for now in range(300)])
    assert [now for now, _ in reports] == [60, 120, 240]
    assert all(taken == now for now, taken in reports)


def test_epochs_that_end_in_time_are_not_reported() -> None:
    assert _reports([(float(now), now // 59) for now in range(1000)]) == []


def test_a_query_that_is_seen_idle_now_and_then_is_not_reported() -> None:
    assert _reports([(float(now), None if now % 50 == 0 else 7) for now in range(1000)]) == []


def test_after_progress_a_stall_counts_from_the_new_epoch() -> None:
    assert _reports([(0, 1), (50, 1), (51, 2), (100, 2), (111, 2)]) == [(111, 60)]


@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.integers(0, 3)), max_size=60), st.floats(1, 200))
def test_a_report_names_the_time_since_the_epoch_was_first_seen(
    steps: list[tuple[float, int | None]], limit_s: float
) -> None:
    now, looks = 0.0, []
    for step, epoch in steps:
        now += step
        looks.append((now, epoch))
    for at, taken in _reports(looks, limit_s):
        index = looks.index(next(look for look in looks if look[0] == at))
        row = [looks[index]]
        while index and looks[index - 1][1] == row[0][1]:
            index -= 1
            row.append(looks[index])
        assert taken >= limit_s
        assert abs(taken - (at - row[-1][0])) < 1e-6 or taken < at - row[-1][0]


def test_the_limit_follows_the_usual_epochs_and_not_the_odd_one() -> None:
    assert limit_after([]) == 60
    assert limit_after([0.1] * 9 + [500.0]) == 60
    assert limit_after([30.0] * 5) == 300
    assert limit_after([30.0] * 5, fixed_s=2.5) == 2.5
    assert limit_after([500.0] * 30 + [1.0] * 20) == 60, "the last epochs count"


def test_an_incident_names_the_epoch_and_where_each_worker_stands() -> None:
    incident = incident_of(7, 71.4, {11: "File x in hang", 12: ""}, elsewhere=False)
    assert "epoch 7 has made no progress for 71 s" in incident.what
    assert "process 11:\nFile x in hang" in incident.what
    assert "process 12:\nit wrote no stacks" in incident.what


def test_a_stall_is_no_failure_and_counts_for_no_attempt() -> None:
    assert since_progress([incident_of(7, 71.4, {}, elsewhere=False)]) == []


def test_stacks_of_a_clusters_executors_are_said_to_be_out_of_reach() -> None:
    assert "cannot be asked from here" in incident_of(7, 71.4, {}, elsewhere=True).what


def test_many_workers_do_not_fill_the_log() -> None:
    incident = incident_of(7, 71.4, dict.fromkeys(range(100), "x" * 100000), elsewhere=False)
    assert len(incident.what) < 60_000
    assert "and 84 further processes" in incident.what


def test_a_query_that_rests_between_two_rounds_of_looking_for_data_is_not_stalled() -> None:
    looks = iter([True] * 20 + [False])
    assert not stays(lambda: next(looks), for_s=60)
    assert stays(lambda: True, for_s=0.01)
