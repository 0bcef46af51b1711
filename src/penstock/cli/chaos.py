"""`penstock chaos`: let faults loose on operators and applications; count what is lost, doubled or wrong."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from penstock.testing.chaos import Check, Outcome, Scenario

    Named = TypeVar("Named", Check, Scenario)


def chaos(
    seconds: Annotated[
        float, typer.Option(min=0, help="How long; the schedule under way is finished.")
    ] = 600.0,
    scenario: Annotated[list[str] | None, typer.Option(help="Only this kind of trouble; repeat it.")] = None,
    check: Annotated[list[str] | None, typer.Option(help="Only this topology; repeat it.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Where the faults are drawn from.", show_default="0")
    ] = None,
    until_red: Annotated[bool, typer.Option(help="End with the first schedule that goes wrong.")] = False,
    out: Annotated[Path, typer.Option(help="The figures as JSON.")] = Path("out/chaos.json"),
    listed: Annotated[bool, typer.Option("--list", help="Say what there is and end.")] = False,
) -> None:
    """Kill, stop, tear and flip while topologies run, and compare with the reference engine.

    With --scenario, --check and --seed one schedule is run again. The exit code is 1 if anything is lost,
    doubled or wrong.
    """
    from penstock.apps.chaos_checks import APPLICATIONS
    from penstock.testing.chaos import FAMILIES, SCENARIOS, Report, run_matrix

    scenarios = _chosen("scenario", SCENARIOS, scenario)
    checks = _chosen("check", (*FAMILIES, *APPLICATIONS), check)
    if listed:
        width = max(len(s.name) for s in scenarios)
        typer.echo("\n".join(f"{s.name:<{width}}  {s.about}" for s in scenarios))
        typer.echo(f"checks: {', '.join(c.name for c in checks)}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    one = seed is not None and len(scenarios) == len(checks) == 1
    report = Report()
    try:
        run_matrix(
            scenarios,
            checks,
            seconds=0 if one else seconds,
            seed=seed or 0,
            tell=_tell,
            until_red=until_red,
            report=report,
        )
    finally:
        typer.echo(report.table())
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report.to_json(), indent=1))
    if report.red:
        typer.echo(
            f"{len(report.red)} schedules went wrong; {out} says how to run each of them again", err=True
        )
        raise typer.Exit(1)


def _tell(outcome: Outcome) -> None:
    state = "RED " if outcome.difference else "ok  "
    typer.echo(f"{state}{outcome.seconds:5.1f} s  {outcome.schedule}")
    if outcome.failures:
        typer.echo(f"     on the way: {', '.join(outcome.failures)}")
    if outcome.difference:
        found = {name: str(difference) for name, difference in outcome.sinks.items() if difference}
        typer.echo(f"     {outcome.trouble or found}")
        typer.echo(f"     what it left is in {outcome.folder}")


def _chosen(what: str, known: tuple[Named, ...], names: list[str] | None) -> tuple[Named, ...]:
    missing = set(names or ()) - {item.name for item in known}
    if missing:
        there_are = ", ".join(item.name for item in known)
        raise typer.BadParameter(f"no {what} {', '.join(sorted(missing))}; there are: {there_are}")
    return tuple(item for item in known if not names or item.name in names)
