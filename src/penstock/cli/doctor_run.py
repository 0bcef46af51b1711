"""Say whether the run in a directory can go on with this Python and these libraries. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.doctor import Check
from penstock.errors import PenstockError, VersionNotLoadable

if TYPE_CHECKING:
    from penstock.control.run_directory import RunDirectory
    from penstock.control.version_record import VersionRecord

_VERSION = "version of the run"


def examine_run(directory: Path) -> Iterator[Check]:
    """Look at the run in a directory, if there is one."""
    from penstock.control.run_directory import FORMAT, READS, RunDirectory

    run = RunDirectory(directory.resolve())
    try:
        card = json.loads((run.path / "run.json").read_bytes())
        found = card["format"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError):
        yield Check(
            "run", "missing", f"{run.path / 'run.json'} cannot be read", "penstock savepoint list DIR"
        )
        return
    if found not in READS:
        reads = ", ".join(map(str, READS))
        advice = "go on with the Penstock that made it"
        yield Check("run", "missing", f"format {found}; this Penstock reads {reads}", advice)
        return
    when = "" if found == FORMAT else f", brought to {FORMAT} when it runs"
    yield Check("run", "ok", f"'{card.get('topology')}' in {run.path}, format {found}{when}")
    if found != FORMAT:
        return
    try:
        if (current := run.current()) > 0:
            yield _version(run, current)
    except PenstockError as error:
        yield Check(_VERSION, "missing", str(error), _next_step(error))


def _version(run: RunDirectory, version: int) -> Check:
    """Check whether the version that the next epoch takes can be loaded or rebuilt."""
    from penstock.control.version_record import made_by

    record = run.version_files.record(version)
    refusal = _refusal(run, version)
    if record is None:
        found = f"{version}, stored without a record of its sources"
        advice = "start it once before Python or Polars is upgraded: its sources are noted then"
        return Check(_VERSION, "missing" if refusal else "warn", found, refusal or advice)
    by = f"{version}, made by Python {record.made_by['python']} with Polars {record.made_by['polars']}"
    if not refusal and (record.made_by == made_by() or run.version_files.has_build(version)):
        return Check(_VERSION, "ok", by)
    reasons = _differences(record)
    if not reasons:
        advice = "start it as before (penstock run APP): it is rebuilt from its sources, which are unchanged"
        return Check(_VERSION, "warn" if refusal else "ok", by, advice)
    return _changed(run, f"{by}; {'; '.join(reasons)}", record.made_by["python"], can_load=not refusal)


def _differences(record: VersionRecord) -> list[str]:
    """List why a version may differ from the sources on the disk."""
    from penstock.control.version_record import file_digest

    edited = [file for file, digest in record.files.items() if file_digest(file) != digest]
    sourceless = [node.name for node in record.nodes if node.missing]
    found = [f"edited or gone: {', '.join(edited)}"] if edited else []
    return [*found, *([f"without a source: {', '.join(sourceless)}"] if sourceless else [])]


def _changed(run: RunDirectory, found: str, python: str, *, can_load: bool) -> Check:
    from penstock.control.rebuilding import version_begun

    if can_load or version_begun(run) is None:
        advice = "nodes whose sources differ count as changed when it is started; their state stays"
        return Check(_VERSION, "warn", found, advice)
    advice = (
        "an epoch was begun and not committed: finish it first (penstock run APP --until caught-up), with "
        f"the sources as they were or by Python {python}"
    )
    return Check(_VERSION, "missing", found, advice)


def _refusal(run: RunDirectory, version: int) -> str:
    """Return the next step if a version cannot be loaded here; an empty text if it can."""
    try:
        run.load(version)
    except VersionNotLoadable as error:
        return _next_step(error)
    return ""


def _next_step(error: PenstockError) -> str:
    return str(error.parameters.get("next_step", ""))
