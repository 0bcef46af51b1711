"""Whether and when to start again: the decision, and the log that it reads."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.control import incidents
from penstock.control.incidents import (
    Incident,
    IncidentLog,
    Kind,
    add_incident,
    read_incidents,
    since_progress,
)
from penstock.control.line_log import append_line
from penstock.control.restarting import RestartPolicy, decide, kind_of
from penstock.errors import Fenced, OperatorFailed, SinkRefused, SinkUnavailable, StreamFailed

SECOND_NS = 1_000_000_000
POLICY = RestartPolicy(
    attempts=4, code_attempts=2, first_wait_s=1.0, longest_wait_s=3.0, patience_s=100.0
)  # fmt: skip


def incident(epoch: int, at_s: float = 0.0, kind: Kind = "death") -> Incident:
    return Incident(int(at_s * SECOND_NS), epoch, kind, "it died", "")


def test_waits_grow_until_it_gives_up_on_an_epoch() -> None:
    before: list[Incident] = []
    waits = []
    for _ in range(4):
        waits.append(decide(POLICY, before, incident(7)).wait_s)
        before.append(incident(7))
    assert waits == [1.0, 2.0, 3.0, None]
    assert decide(POLICY, before, incident(7)).why == "epoch 7 failed 5 times in a row"


def test_a_committed_epoch_begins_the_count_anew() -> None:
    before = [incident(7), incident(7), incident(7)]
    assert decide(POLICY, before, incident(8)).wait_s == 1.0


def test_the_users_code_gets_fewer_attempts() -> None:
    assert decide(POLICY, [], incident(7, kind="code")).wait_s == 1.0
    assert decide(POLICY, [incident(7, kind="code")], incident(7, kind="code")).wait_s is None


def test_what_is_away_is_waited_for_with_patience_however_often_it_fails() -> None:
    before = [incident(7, at_s, "away") for at_s in range(0, 100, 3)]
    assert decide(POLICY, before, incident(7, 99.0, "away")).wait_s == 3.0
    assert "longer than is waited for" in decide(POLICY, before, incident(7, 101.0, "away")).why


def test_what_is_away_from_the_beginning_is_likelier_a_mistake() -> None:
    policy = RestartPolicy(patience_s=100.0, first_patience_s=4.0)
    before = [incident(0, 0.0, "away")]
    assert decide(policy, before, incident(0, 3.0, "away")).wait_s is not None
    assert decide(policy, before, incident(0, 5.0, "away")).wait_s is None


def test_a_death_while_something_is_away_counts_for_itself() -> None:
    before = [incident(7, at_s, "away") for at_s in range(8)]
    assert decide(POLICY, before, incident(7, 9.0)).why == "failure 1 of 4 at epoch 7"
    again = decide(POLICY, [*before, incident(7, 9.0)], incident(7, 10.0, "away"))
    assert again.why == "waiting for it, 10 s so far"


def test_a_clock_that_is_set_does_not_end_the_patience() -> None:
    before = [incident(7, at_s, "away") for at_s in (0.0, 10.0, 20.0)]
    patient = RestartPolicy(patience_s=600.0)
    assert decide(patient, before, incident(7, 7_200.0, "away")).wait_s is not None
    assert decide(patient, before, incident(7, -7_200.0, "away")).wait_s is not None


def test_what_was_handled_counts_for_nothing() -> None:
    before = [incident(7), incident(7), incident(6, kind="handled"), incident(7)]
    assert decide(POLICY, before, incident(7)).wait_s is None
    assert decide(POLICY, [incident(7, kind="handled")] * 9, incident(7)).wait_s == 1.0


def test_what_cannot_change_is_not_tried_again() -> None:
    assert decide(POLICY, [], incident(0, kind="final")).wait_s is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SinkRefused(sink="s", what="422", where="w", next_step="n"), "final"),
        (Fenced(directory="d", newest=2, mine=1), "final"),
        (SinkUnavailable(sink="s", what="w", where="h", next_step="n"), "away"),
        (StreamFailed(topology="t", epoch=1, reason="[Errno 28] No space left on device: 'x'"), "away"),
        (StreamFailed(topology="t", epoch=1, reason="Python worker exited unexpectedly"), "death"),
        (OSError("anything"), "death"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "away"),
    ],
)
def test_errors_are_told_apart(error: Exception, kind: Kind) -> None:
    assert kind_of(error) == kind


def test_the_users_errors_are_code() -> None:
    error = OperatorFailed.__new__(OperatorFailed)
    assert kind_of(error) == "code"


def test_the_log_survives_a_torn_line(tmp_path: Path) -> None:
    log = tmp_path / "incidents.jsonl"
    assert read_incidents(log) == []
    add_incident(log, incident(1))
    with open(log, "ab") as file:
        file.write(b'{"at_ns": 1, "epo')
    add_incident(log, incident(2))
    assert [found.epoch for found in read_incidents(log)] == [1, 2]


def test_what_cannot_be_logged_is_kept_until_it_can(tmp_path: Path) -> None:
    """A folder that is missing stands in for a disk without room: both are an OSError."""
    log = IncidentLog(tmp_path / "away" / "incidents.jsonl")
    log.add(incident(1))
    log.add(incident(2))
    assert [found.epoch for found in log.read()] == [1, 2]
    (tmp_path / "away").mkdir()
    log.add(incident(3))
    assert read_incidents(tmp_path / "away" / "incidents.jsonl") == log.read()
    assert [found.epoch for found in log.read()] == [1, 2, 3]


def test_only_the_newest_row_of_one_epoch_counts() -> None:
    log = [incident(1), incident(2), incident(2)]
    assert since_progress(log) == [incident(2), incident(2)]
    assert since_progress([]) == []


def test_a_log_of_incidents_that_has_grown_begins_anew_and_numbers_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "LOG_BYTES", 500)
    path = tmp_path / "incidents.jsonl"
    told, seen = 0, list[int]()
    for number in range(60):
        IncidentLog(path).add(Incident(number, number, "death", "what", "action"))
        fresh, told = IncidentLog(path).read_on(told)
        seen += [incident.epoch for incident in fresh]
    assert seen == list(range(60))
    assert told == 60
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 1500
    assert [incident.epoch for incident in read_incidents(path)][-5:] == [55, 56, 57, 58, 59]
    assert IncidentLog(path).read(58) == read_incidents(path)[-2:]


def test_a_log_of_incidents_that_was_only_just_put_aside_goes_on_from_there(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    for number in range(3):
        IncidentLog(path).add(Incident(number, number, "death", "what", "action"))
    path.rename(tmp_path / "incidents.before.jsonl")
    IncidentLog(path).add(Incident(3, 3, "death", "what", "action"))
    assert [incident.epoch for incident in read_incidents(path)] == [0, 1, 2, 3]
    assert IncidentLog(path).read_on(2)[1] == 4


def test_a_log_that_several_processes_find_grown_is_put_aside_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "LOG_BYTES", 2_000)
    for number in range(20):
        path = tmp_path / f"{number}.jsonl"
        for epoch in range(30):
            append_line(path, Incident(0, epoch, "death", "what", "action").to_json().encode())
        begin, started = os.pipe()
        children = []
        for child in range(4):
            if not (pid := os.fork()):
                os.close(started)
                os.read(begin, 1)  # ends when the parent closes its end
                add_incident(path, Incident(0, 30 + child, "death", "what", "action"))
                os._exit(0)
            children.append(pid)
        os.close(started)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0, 0]
        os.close(begin)
        assert sorted(incident.epoch for incident in read_incidents(path)) == list(range(34))
