"""The commands, without a JVM."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import penstock as ps
import penstock.bench
from penstock.cli.commands import app
from penstock.cli.running import natural_end
from penstock.control.incidents import Incident, IncidentLog
from penstock.control.run_directory import RunDirectory

APP = """
import polars as pl
from penstock.connect.collect import Collect
from penstock.connect.generator import Generator
from penstock.topology.stream import Topology

def numbers(first, count):
    return pl.DataFrame({"n": range(first, first + count)}, schema={"n": pl.Int64})

top = Topology("numbers")
source = top.source("numbers", Generator(numbers, schema={"n": int}, rows=10))
source.filter("even", lambda df: df["n"] % 2 == 0).sink("kept", Collect())
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "numbers_app.py"
    path.write_text(APP)
    return str(path)


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_help_lists_every_command() -> None:
    text = invoke("--help")
    assert all(command in text for command in ("run", "check", "describe", "bench", "demo", "doctor"))


@pytest.mark.parametrize("decision", ["input", "input=perhaps", "=anew"])
def test_a_decision_about_a_source_that_is_none_is_a_usage_error(target: str, decision: str) -> None:
    text = invoke("run", target, "--source", decision, code=2)
    assert "NAME=continue or NAME=anew" in " ".join(text.replace("│", " ").split())


def test_help_on_an_app_says_what_the_app_takes(tmp_path: Path, target: str) -> None:
    text = invoke("run", "--dir", "x:y", "smart-pcc", "--help")
    assert "Values of smart-pcc:" in text
    assert "--notify NOTIFY" in text
    assert "--notify NOTIFY" in invoke("check", "penstock.apps.smart_pcc:topology", "--help")
    assert "Values of" not in invoke("run", "--help")
    assert "Values of" not in invoke("run", target, "--help"), "a topology takes none"
    assert "there is no such file" in invoke("run", str(tmp_path / "no.py"), "--help", code=1)


def test_help_loads_no_engine() -> None:
    heavy = "{'pyspark', 'polars', 'pyarrow', 'numba', 'pandas', 'deltalake'}"
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom penstock.cli.commands import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_describe_shows_the_nodes(target: str) -> None:
    text = invoke("describe", target)
    assert "topology 'numbers'" in text
    assert "even" in text


def test_describe_draws_a_mermaid_chart(target: str) -> None:
    assert invoke("describe", target, "--mermaid").startswith("flowchart")


def test_describe_gives_json(target: str) -> None:
    assert json.loads(invoke("describe", target, "--json"))["name"] == "numbers"


def test_describe_takes_one_form_at_a_time(target: str) -> None:
    assert "choose one" in invoke("describe", target, "--mermaid", "--json", code=2)


def test_check_prints_the_plan_without_spark(target: str) -> None:
    text = invoke("check", target, "--hops", "2")
    assert "topology 'numbers'" in text
    assert "hop 2" in text


def test_an_error_of_penstock_is_a_message_and_exit_code_1(tmp_path: Path) -> None:
    text = invoke("check", str(tmp_path / "nowhere.py"), code=1)
    assert text.startswith("penstock: [APP_NOT_FOUND]")
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "arguments",
    [("--every", "soon"), ("--conf", "nothing"), ("--until", "never"), ("--partitions", "0")],
    ids=lambda pair: pair[0],
)
def test_a_bad_option_is_exit_code_2(target: str, arguments: tuple[str, ...]) -> None:
    invoke("run", target, *arguments, code=2)


def test_bench_lists_what_there_is() -> None:
    text = invoke("bench", "--list")
    listed = [line.split()[0] for line in text.splitlines()]
    assert listed[:3] == ["keyed", "broadcast", "state-growth"]
    folder = Path(penstock.bench.__path__[0])
    with_run = [
        path for path in folder.glob("*.py") if re.search(r"^def run\(", path.read_text(), re.MULTILINE)
    ]
    assert sorted(listed) == sorted(path.stem.replace("_", "-") for path in with_run), "each module is listed"


def test_an_unknown_bench_is_exit_code_2() -> None:
    assert "keyed" in invoke("bench", "nothing", code=2)


def test_doctor_speaks_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--json", "--dir", str(tmp_path)])
    assert {"Python", "Java", "polars"} <= {check["name"] for check in json.loads(result.stdout)}


def test_a_run_is_named_by_its_directory_or_by_its_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (".penstock/numbers", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "run.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for named in ("numbers", ".penstock/numbers", "elsewhere"):
        assert "no incidents" in invoke("incidents", named)
        assert "no savepoints" in invoke("savepoint", "list", named)


def test_incidents_that_are_piped_stand_in_lines_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(tmp_path)
    run.open("numbers")
    what = "the driver process was ended by SIGKILL (see .penstock/numbers/driver.log)"
    IncidentLog(run.incidents).add(Incident(0, 7, "death", what, "failure 1 of 5 at epoch 7"))
    monkeypatch.setenv("COLUMNS", "80")
    assert what in invoke("incidents", str(tmp_path))


@pytest.mark.parametrize("command", [("incidents",), ("savepoint", "list"), ("savepoint", "create")])
def test_what_is_no_run_is_refused_with_those_that_are(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".penstock" / "numbers").mkdir(parents=True)
    (tmp_path / ".penstock" / "numbers" / "run.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert "numbers" in invoke(*command, "nubmers", code=2)


@pytest.mark.parametrize(("ends", "until"), [("drained", "finished"), ("never", "stopped")])
def test_a_run_ends_with_its_sources_if_they_do(ends: Any, until: str, tmp_path: Path) -> None:
    top = ps.Topology("lines")
    ended = top.source("ended", ps.Generator(lambda first, count: pl.DataFrame(), schema={"n": int}, rows=9))
    lines = top.source("lines", ps.Files(tmp_path, format="text", ends=ends))
    ended.sink("numbers", ps.Collect())
    lines.sink("kept", ps.Collect())
    assert natural_end(top) == until
