"""What the doctor finds."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from penstock.cli.doctor import Check, check_package, examine, report, to_json, within
from penstock.net.dpi import abi


def missing(name: str) -> str:
    raise PackageNotFoundError(name)


def test_everything_that_a_run_needs_is_examined(tmp_path: Path) -> None:
    names = [check.name for check in examine(tmp_path / "not" / "there" / "yet")]
    assert names[:4] == ["Python", "Java", "cores", "memory"]
    assert {"disk of the run", "shared memory", "compiled kernels", "pyspark", "deltalake"} <= set(names)


def test_packages_of_extras_are_not_asked_for(tmp_path: Path) -> None:
    assert "pytest" not in {check.name for check in examine(tmp_path)}


def ndpi_check(tmp_path: Path) -> Check:
    return next(check for check in examine(tmp_path) if check.name == "nDPI")


def test_an_ndpi_with_another_layout_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ndpi_check(tmp_path).found.startswith("not installed"):
        pytest.skip("nfstream is not here (extra dpi)")
    assert ndpi_check(tmp_path).status == "ok"
    flow = abi.STRUCTS["struct ndpi_flow_struct"]
    monkeypatch.setattr(abi, "STRUCTS", {"struct ndpi_proto": (24, {}), "struct ndpi_flow_struct": flow})
    told = ndpi_check(tmp_path)
    assert (told.status, told.found) == (
        "warn", "not used: struct ndpi_proto is 56 bytes, allowed: 24 bytes",
    )  # fmt: skip
    assert "nfstream==" in told.advice


def test_a_package_within_its_range_is_well() -> None:
    assert check_package("polars<3,>=2.0", lambda _: "2.1.0") == Check("polars", "ok", "2.1.0")


def test_a_package_outside_of_its_range_is_a_warning_with_the_way_out() -> None:
    check = check_package("pandas>=2.2.3,<3", lambda _: "3.0.1")
    assert (check.status, check.advice) == ("warn", "pip install 'pandas>=2.2.3,<3'")


def test_a_package_that_is_not_there_is_missing() -> None:
    assert check_package("numba>=0.65", missing).status == "missing"


@pytest.mark.parametrize(
    ("version", "bound", "fits"),
    [
        ("4.3.0", ">=4.3", True),
        ("4.10.0", "<4.9", False),
        ("2.0.0rc1", ">=2", True),
        ("1.2.post3", "==1.2", True),
        ("1.2", "!=1.2.0", False),
        ("7.1", ">7", True),
        ("7.0", "<=7", True),
        ("7.0", "", True),
    ],
)
def test_versions_compare_by_number(version: str, bound: str, fits: bool) -> None:
    assert within(version, bound) is fits


def test_the_report_puts_advice_under_what_is_missing() -> None:
    text = report([Check("Java", "missing", "none", "install one"), Check("cores", "ok", "8")])
    assert text.splitlines()[1].strip() == "→ install one"
    assert text.endswith("something that Penstock needs is missing")


def test_the_report_says_when_all_is_well() -> None:
    assert report([Check("cores", "ok", "8")]).endswith("everything is there")


def test_json_holds_every_check() -> None:
    assert json.loads(to_json([Check("cores", "ok", "8")])) == [
        {"name": "cores", "status": "ok", "found": "8", "advice": ""}
    ]
