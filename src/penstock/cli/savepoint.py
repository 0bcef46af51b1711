"""`penstock savepoint …` and `penstock rescale`: keep a run's state, go back to it, spread it differently."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import numbers
from penstock.cli.finding import Run
from penstock.errors import SavepointBroken

if TYPE_CHECKING:
    from penstock.control.run_directory import RunDirectory
    from penstock.control.savepoint_files import Savepoint
    from penstock.topology.stream import Topology

app = typer.Typer(
    help="Take, check, compare and restore savepoints.", no_args_is_help=True, rich_markup_mode=None
)

Kept = Annotated[Path, typer.Argument(metavar="SAVEPOINT", help="The folder of a savepoint.")]
Partitions = Annotated[
    int | None, typer.Option(min=1, help="State partitions, a divisor of 120.", show_default="as they were")
]
Master = Annotated[str, typer.Option(help="Any Spark master; needed only to change the partitions.")]


@app.callback()
def _group() -> None:
    """Take, check, compare and restore savepoints."""


@app.command()
def create(
    directory: Run,
    to: Annotated[
        Path | None, typer.Option(help="Where to put it.", show_default="RUN/savepoints/<time and epoch>")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an epoch boundary.")] = 120.0,
) -> None:
    """Save a run at an epoch boundary, also while it runs."""
    from penstock.control.savepoints import create as take

    made = take(directory, to=to, timeout_s=timeout)
    pause = f", the run was held for {numbers.time(made.manifest.pause_ms)}" if made.manifest.pause_ms else ""
    typer.echo(f"{made.path}\n  {_summary(made)}{pause}")


@app.command("list")
def list_(directory: Run) -> None:
    """Show the savepoints that lie with a run, oldest first."""
    from penstock.control.savepoints import savepoints_of

    found = savepoints_of(directory)
    for savepoint in found:
        if isinstance(savepoint, SavepointBroken):
            typer.echo(f"{savepoint.parameters['savepoint']}\n  DAMAGED: {savepoint.parameters['what']}")
        else:
            typer.echo(f"{savepoint.path}\n  {_summary(savepoint)}")
    if not found:
        typer.echo(f"no savepoints in {directory}")


@app.command()
def verify(savepoint: Kept) -> None:
    """Check every file of a savepoint against its digest."""
    from penstock.control.savepoint_files import faults, open_savepoint

    opened = open_savepoint(savepoint)
    found = faults(opened)
    for name, fault in found.items():
        typer.echo(f"{name} {fault}")
    if found:
        typer.echo(f"{savepoint}: {len(found)} of {len(opened.manifest.files)} files are damaged", err=True)
        raise typer.Exit(1)
    typer.echo(f"{savepoint}: all {len(opened.manifest.files)} files are as they were written")


@app.command()
def restore(
    savepoint: Kept,
    into: Annotated[Path, typer.Option(help="The new run directory.")],
    partitions: Partitions = None,
    master: Master = "local[*]",
) -> None:
    """Make a new run directory from a savepoint."""
    restore_into(savepoint, into, partitions=partitions, master=master)


@app.command()
def diff(old: Kept, new: Kept) -> None:
    """Say what lies between two savepoints."""
    from penstock.control.savepoint_diff import compare
    from penstock.control.savepoint_files import open_savepoint

    typer.echo(compare(open_savepoint(old), open_savepoint(new)))


def rescale(
    directory: Run,
    partitions: Annotated[int, typer.Option(min=1, help="State partitions, a divisor of 120.")],
    master: Master = "local[*]",
) -> None:
    """Change the number of state partitions of a run that is stopped. Nothing is lost."""
    from penstock.spark.options import RunOptions
    from penstock.spark.rescaling import rescale as change

    before, after = change(directory, RunOptions(partitions=partitions, master=master))
    had = f"{before} → {after}" if before != after else f"already {after}"
    typer.echo(f"{directory}: {had} state partitions")


def restore_into(savepoint: Path, into: Path, *, partitions: int | None, master: str) -> None:
    """Restore, unless that was done before, and say what the tables hold that comes again."""
    from penstock.control.restoring import is_restored, later_epochs
    from penstock.control.restoring import restore as bring_back
    from penstock.control.savepoint_files import open_savepoint
    from penstock.spark.options import RunOptions

    opened = open_savepoint(savepoint)
    options = RunOptions(partitions=partitions, master=master)

    def spread(run: RunDirectory) -> None:
        if partitions is not None:
            from penstock.spark.rescaling import rescaled

            rescaled(run, options)

    if is_restored(into, opened):
        typer.echo(f"{into} was restored from this savepoint and goes on")
        return
    bring_back(opened, into, prepare=spread)
    spread_over = f"; now {partitions} state partitions" if partitions is not None else ""
    typer.echo(f"{into}: restored, {_summary(opened)}{spread_over}")
    for sink, held in later_epochs(opened).items():
        typer.echo(
            f"warning: sink '{sink}': {held} of the run that was saved; the restored run writes them again, "
            "so remove those rows first or write to another table",
            err=True,
        )


def restore_for_run(savepoint: Path, into: Path, *, partitions: int | None, master: str) -> None:
    """Restore before a run. Other partitions take a Spark that is gone when the run's own one comes."""
    if partitions is None:
        restore_into(savepoint, into, partitions=None, master=master)
        return
    options = ["--into", str(into), "--partitions", str(partitions), "--master", master]
    command = [sys.executable, "-m", "penstock.cli", "savepoint", "restore", str(savepoint), *options]
    if code := subprocess.run(command, check=False).returncode:
        raise typer.Exit(code)


def require_partitions(directory: Path, partitions: int | None) -> None:
    """Refuse another number of state partitions than a run has: it would not be heeded."""
    from penstock.control.run_directory import RunDirectory

    shape = RunDirectory(directory).fabric() if partitions is not None else None
    if shape is not None and shape["partitions"] != partitions:
        had = f"the run in {directory} has {shape['partitions']}"
        step = f"leave the option out, or change them: penstock rescale {directory} --partitions {partitions}"
        raise typer.BadParameter(f"{had}; {step}", param_hint="--partitions")


def drop_state(directory: Path, nodes: list[str], topology: Topology) -> None:
    """Drop the state of nodes and say so. The topology serves to rebuild what another Python has made."""
    from penstock.control.forgetting import forget_state
    from penstock.control.rebuilding import prepare
    from penstock.control.run_directory import RunDirectory
    from penstock.plan import plan

    run = RunDirectory(directory.resolve())
    if run.versions():
        prepare(run, plan(topology))
    forget_state(run, nodes)
    typer.echo(f"the state of {', '.join(nodes)} is dropped, once; leave --ignore-state out from now on")


def _summary(savepoint: Savepoint) -> str:
    manifest = savepoint.manifest
    at = dt.datetime.fromtimestamp(manifest.taken_ns / 1e9, dt.UTC)
    return (
        f"'{manifest.topology}' after epoch {manifest.epoch}, version {manifest.version}, "
        f"{at:%Y-%m-%d %H:%M:%S} UTC, {manifest.partitions} state partitions, "
        f"{numbers.size(manifest.nbytes)} in {len(manifest.files)} files"
    )
