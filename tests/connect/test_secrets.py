"""Credentials are references: their values are used, and never stored or printed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.receiver import Receiver, receiving

import penstock as ps
from penstock.connect.http_post import Http
from penstock.connect.secret import require_secrets, secrets_in
from penstock.control.restarting import kind_of
from penstock.control.run_directory import RunDirectory
from penstock.errors import BadArgument, SecretUnusable, SinkRefused, SinkUnavailable
from penstock.plan.explain import explain
from penstock.plan.passes import plan
from penstock.testing.engine import ReferenceRun
from penstock.testing.sinks import SCHEMA, Harness, rows
from penstock.topology.codec import decode, encode
from penstock.topology.fingerprint import fingerprint
from penstock.topology.stream import Topology

VALUE = "hunter2-f00d"
PLAIN = "plain-abc123"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> ps.Secret:
    monkeypatch.setenv("SIGNALS_TOKEN", VALUE)
    return ps.Secret("SIGNALS_TOKEN", prefix="Bearer ")


def _topology(sink: Http) -> Topology:
    topology = ps.Topology("signals")
    numbers = topology.source("numbers", ps.Generator(rows, schema=SCHEMA, rows=10))
    numbers.sink("out", sink)
    return topology


def _harness(sink: Http, folder: Path) -> Harness:
    return Harness(sink, lambda *_: rows(0, 0), folder)


def test_a_request_has_the_value_of_the_secret_behind_its_prefix(
    receiver: Receiver, token: ps.Secret, tmp_path: Path
) -> None:
    sink = Http(receiver.url("in"), headers={"Authorization": token})
    _harness(sink, tmp_path).epoch(0, [rows(0, 1)])
    assert [authorization for _, authorization in receiver.requests] == [f"Bearer {VALUE}"]


def test_an_epoch_takes_the_present_value(
    receiver: Receiver, token: ps.Secret, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = _harness(Http(receiver.url("in"), headers={"Authorization": token}), tmp_path)
    harness.epoch(0, [rows(0, 1)])
    monkeypatch.setenv("SIGNALS_TOKEN", "renewed")
    harness.epoch(1, [rows(0, 1)])
    assert receiver.requests[-1][1] == "Bearer renewed"


def test_nothing_that_is_made_from_a_topology_holds_the_value(
    receiver: Receiver, token: ps.Secret, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sink = Http(receiver.url("in"), headers={"Authorization": token, "X-Key": ps.Secret("SIGNALS_TOKEN")})
    topology = _topology(sink)
    directory = RunDirectory(tmp_path / "run")
    directory.open("signals")
    directory.store(1, plan(topology))
    receiver.answers = [200, 422]
    receiver.says = f"bad token {VALUE}".encode()
    harness = _harness(sink, tmp_path)
    harness.epoch(0, [rows(0, 1)])
    with pytest.raises(SinkRefused) as caught:
        harness.epoch(1, [rows(0, 1)])
    directory.record_failure(caught.value)
    run = ReferenceRun(topology)
    run.drain()
    print(topology.describe(), explain(topology), topology.to_json(), repr(sink), caught.value, run)
    print(cloudpickle.dumps(topology), pickle.dumps(sink), topology.diff(_topology(Http("http://other/"))))
    stored = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(b"SIGNALS_TOKEN" in content for content in stored.values()), "the name is stored"
    assert [path for path, content in stored.items() if VALUE.encode() in content] == []
    out, err = capfd.readouterr()
    assert "SIGNALS_TOKEN" in out
    assert VALUE not in out + err


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=12))
def test_a_reference_is_the_same_whatever_the_value(value: str) -> None:
    before = os.environ.get("SIGNALS_TOKEN")
    secret = ps.Secret("SIGNALS_TOKEN")
    forms = []
    for present in (None, value):
        if present is not None:
            os.environ["SIGNALS_TOKEN"] = present
        text = json.dumps(encode(secret))
        forms.append((repr(secret), str(secret), fingerprint(secret), pickle.dumps(secret), text))
        assert decode(json.loads(text)) == secret == pickle.loads(pickle.dumps(secret))
    if before is None:
        del os.environ["SIGNALS_TOKEN"]
    assert forms[0] == forms[1]


def test_another_variable_or_prefix_is_another_logic() -> None:
    secrets = (ps.Secret("A"), ps.Secret("B"), ps.Secret("A", prefix="Bearer "))
    assert len({fingerprint(secret) for secret in secrets}) == 3


@pytest.mark.parametrize("value", ["sk-live-123", "hunter2", "", "A B", "1A", None])
def test_a_value_in_the_place_of_a_name_is_refused_and_not_shown(value: str | None) -> None:
    with pytest.raises(BadArgument) as caught:
        ps.Secret(value)  # type: ignore[arg-type]
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    ("present", "got"),
    [(None, "is not set"), ("", "is empty"), (VALUE + "\n", "does not fit into a header")],
)
def test_a_variable_without_a_usable_value_is_named_in_an_error_that_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str | None, got: str
) -> None:
    monkeypatch.delenv("SIGNALS_TOKEN", raising=False)
    if present is not None:
        monkeypatch.setenv("SIGNALS_TOKEN", present)
    sink = Http("http://127.0.0.1:1/in", headers={"Authorization": ps.Secret("SIGNALS_TOKEN")})
    with pytest.raises(SecretUnusable) as caught:
        _harness(sink, tmp_path).epoch(0, [rows(0, 1)])
    assert caught.value.parameters["got"] == got
    assert "SIGNALS_TOKEN" in caught.value.parameters["what"]
    assert VALUE not in str(caught.value)
    assert kind_of(caught.value) == "final"


def test_a_missing_variable_is_found_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGNALS_TOKEN", raising=False)
    program = plan(_topology(Http("http://host/", headers={"X": ps.Secret("SIGNALS_TOKEN")})))
    with pytest.raises(SecretUnusable) as caught:
        require_secrets({**program.sources, **program.sinks})
    assert caught.value.parameters["where"] == "node 'out'"


def test_a_run_without_its_variable_leaves_no_run_directory(tmp_path: Path) -> None:
    script = f"""
import penstock as ps
from penstock.testing.sinks import SCHEMA, rows
topology = ps.Topology("signals")
numbers = topology.source("numbers", ps.Generator(rows, schema=SCHEMA, rows=10))
numbers.sink("out", ps.Http("http://host/", headers={{"X": ps.Secret("SIGNALS_TOKEN")}}))
try:
    ps.start(topology, directory={str(tmp_path / "run")!r})
except ps.errors.SecretUnusable as error:
    print(error.parameters["got"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "SIGNALS_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "is not set"
    assert not (tmp_path / "run").exists()


def test_secrets_are_found_wherever_a_sink_holds_them() -> None:
    inner = ps.Secret("INNER")
    found = secrets_in({"a": [(Http("http://host/", headers={"X": inner}),)], "b": {ps.Secret("OTHER")}})
    assert set(found) == {inner, ps.Secret("OTHER")}


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Cookie", "X-Auth-Token", "Proxy-Password"])
def test_a_credential_in_plain_text_is_sent_and_not_printed(
    receiver: Receiver, tmp_path: Path, name: str
) -> None:
    sink = Http(receiver.url("in"), headers={name: PLAIN})
    topology = _topology(sink)
    receiver.answers, receiver.says = [422], f"what is {PLAIN}?".encode()
    with pytest.raises(SinkRefused) as caught:
        _harness(sink, tmp_path / "sink").epoch(0, [rows(0, 1)])
    assert PLAIN in receiver.headers[-1].values()
    assert "what is ***?" in str(caught.value)
    directory = RunDirectory(tmp_path / "run")
    directory.open("signals")
    directory.store(1, plan(topology))
    texts = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert len(texts) >= 3, "run.json, a version and its record"
    for text in (*texts, repr(sink), topology.describe(), topology.to_json(), explain(topology)):
        assert PLAIN not in text


def test_a_credential_that_json_left_out_is_asked_for_again() -> None:
    sink = decode(encode(Http("http://host/", headers={"Authorization": PLAIN})))
    with pytest.raises(SecretUnusable) as caught:
        require_secrets({"out": sink})
    assert caught.value.parameters["got"] == "was left out of the topology's JSON form"


def test_a_header_that_is_no_credential_is_shown() -> None:
    sink = Http("http://host/", headers={"X-Team": "signals"})
    assert "signals" in repr(sink)


@pytest.mark.parametrize("length", [270, 295, 299])
def test_no_beginning_of_a_secret_is_left_where_a_refusal_is_cut(
    receiver: Receiver, token: ps.Secret, tmp_path: Path, length: int
) -> None:
    receiver.answers, receiver.says = [422], b"." * length + VALUE.encode() * 2
    with pytest.raises(SinkRefused) as caught:
        _harness(Http(receiver.url("in"), headers={"X": token}), tmp_path).epoch(0, [rows(0, 1)])
    assert VALUE[:3] not in str(caught.value)


def test_a_redirection_is_refused_and_takes_no_header_to_another_host(
    receiver: Receiver, token: ps.Secret, tmp_path: Path
) -> None:
    with receiving() as other:
        receiver.answers, receiver.location = [302], other.url("in")
        with pytest.raises(SinkRefused) as caught:
            _harness(Http(receiver.url("in"), headers={"X": token}), tmp_path).epoch(0, [rows(0, 1)])
        assert other.headers == []
    assert "302" in caught.value.parameters["what"]


def test_the_query_of_an_address_is_not_printed(tmp_path: Path) -> None:
    sink = Http(f"http://127.0.0.1:1/in?token={PLAIN}", patience="0s")
    with pytest.raises(SinkUnavailable) as caught:
        _harness(sink, tmp_path).epoch(0, [rows(0, 1)])
    assert caught.value.parameters["where"] == "http://127.0.0.1:1/in?***"
    assert sink.describe() == "Http(http://127.0.0.1:1/in?***)"


def test_a_login_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(BadArgument) as caught:
        Http(f"http://me:{PLAIN}@host/")
    assert PLAIN not in str(caught.value)


@pytest.mark.parametrize("value", [f"{PLAIN}\r\nX: y", f"{ps.Secret('A')}", "€", 7])
def test_a_header_that_cannot_be_sent_is_refused_and_not_shown(value: object) -> None:
    with pytest.raises(BadArgument) as caught:
        Http("http://host/", headers={"Authorization": value})  # type: ignore[dict-item]
    assert PLAIN not in str(caught.value)
