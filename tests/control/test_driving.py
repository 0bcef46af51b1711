"""What a supervisor asks of a driver is read by the same Python, or refused in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.topologies import totals_topology

import penstock as ps
from penstock.control.driving import Answer, Request
from penstock.control.restarting import RestartPolicy
from penstock.control.version_record import made_by
from penstock.errors import EnvironmentChanged
from penstock.spark.options import RunOptions


@pytest.fixture
def request_folder(tmp_path: Path) -> Path:
    top = totals_topology(ps.Collect(), rows=100)
    Request(top, tmp_path / "run", RunOptions(), RestartPolicy()).write(tmp_path)
    return tmp_path


def written_by(folder: Path, **versions: str) -> None:
    (folder / "made_by.json").write_text(json.dumps({**made_by(), **versions}))


def test_a_request_is_read_as_it_was_written(request_folder: Path) -> None:
    assert Request.read(request_folder).topology == totals_topology(ps.Collect(), rows=100)


def test_a_request_with_another_pythons_code_is_refused(request_folder: Path) -> None:
    written_by(request_folder, python="3.10.4")
    with pytest.raises(EnvironmentChanged) as caught:
        Request.read(request_folder)
    assert caught.value.parameters["before"] == "python 3.10.4"


def test_another_polars_is_refused_only_if_it_cannot_read_the_request(request_folder: Path) -> None:
    written_by(request_folder, polars="1.0.0")
    assert Request.read(request_folder).directory == request_folder / "run"
    (request_folder / "topology.pickle").write_bytes(b"noise")
    with pytest.raises(EnvironmentChanged):
        Request.read(request_folder)


def test_a_driver_answers_that_its_environment_has_changed_and_is_not_started_again(
    request_folder: Path,
) -> None:
    written_by(request_folder, python="3.10.4")
    command = [sys.executable, "-m", "penstock.spark.driver", str(request_folder), str(os.getpid())]
    subprocess.run(command, check=True)
    answer = Answer.take(request_folder)
    assert answer is not None
    assert isinstance(answer.error, EnvironmentChanged)
    assert not answer.again
