"""The commands and their options. Each imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.cli.chaos import chaos
from penstock.cli.finding import Run
from penstock.cli.net import app as net_app
from penstock.cli.options import parse_decisions, parse_settings, parse_time
from penstock.cli.savepoint import app as savepoint_app
from penstock.cli.savepoint import drop_state, require_partitions, rescale, restore_for_run
from penstock.errors import PenstockError

T = TypeVar("T")
# What we do not know is for the application: `penstock run click-stream --stdin`.
_APPS_OPTIONS = {"ignore_unknown_options": True}


class Commands(TyperGroup):
    """Turns what Penstock raises on purpose into a message and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a PenstockError ends it without a traceback."""
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            typer.echo(f"penstock: {error}", err=True)
            raise typer.Exit(1) from None


class OnAnApp(TyperCommand):
    """A command whose help also says what the app takes that stands on the line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words: help is given before they are sorted into parameters."""
        ctx.meta["penstock.words"] = list(args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """After our own options those of the app."""
        from inspect import getdoc

        from penstock.cli.loading import maker
        from penstock.cli.values import explained

        given, *_ = self.make_parser(ctx).parse_args(ctx.meta["penstock.words"])
        target = given.get("target")
        if not isinstance(target, str) or (function := maker(target)) is None:
            return
        with formatter.section(f"Values of {target}"):
            formatter.write_dl(explained(function))
        if text := getdoc(function):
            formatter.write_paragraph()
            formatter.write_text(text)


app = typer.Typer(
    cls=Commands,
    name="penstock",
    help="Stream analytics on Apache Spark that can be changed while it runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

App = Annotated[
    str, typer.Argument(metavar="APP", help="APP.py, APP.py:NAME, MODULE:NAME, or a built-in app's name.")
]
Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="VALUE",
        help="For a function that makes the topology, e.g. a path; options too, as --name value.",
        show_default="none",
    ),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir", help="Where the run keeps its checkpoint and progress.", show_default=".penstock/<name>"
    ),
]
Hops = Annotated[
    int | None, typer.Option(min=1, help="Exchanges in the fabric; more leave room for later changes.")
]
Partitions = Annotated[
    int | None, typer.Option(min=1, help="State partitions.", show_default="cores of the master")
]


def _usage(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make a parser's ValueError a usage error, which exits with 2."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


@app.command(cls=OnAnApp, context_settings=_APPS_OPTIONS)
def run(
    target: App,
    values: Values = None,
    directory: Directory = None,
    master: Annotated[str, typer.Option(help="Any Spark master.")] = "local[*]",
    partitions: Partitions = None,
    hops: Hops = None,
    every: Annotated[
        str | None, typer.Option(help="Smallest time between epochs, e.g. 500ms or 10s.", show_default="none")
    ] = None,
    until: Annotated[
        Literal["stopped", "finished", "caught-up"] | None,
        typer.Option(
            help="When to end: never by itself, at the end of all sources, or with nothing to read.",
            show_default="finished if all sources end by themselves, else stopped",
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="Heap of Spark's driver.")] = "1g",
    allow_state_loss: Annotated[
        bool, typer.Option("--allow-state-loss", help="Start although changed nodes lose their state.")
    ] = False,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=continue|anew",
            help="What becomes of a source that reads another place than before; repeat it for others.",
        ),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Apply APP although the run's current version came from elsewhere."),
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Start although another runner holds the directory.")
    ] = False,
    savepoint: Annotated[
        Path | None,
        typer.Option("--from", metavar="SAVEPOINT", help="Begin with this savepoint, in a new directory."),
    ] = None,
    ignore_state: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Drop the state of this node, once; repeat the option for others."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting; repeat it.")
    ] = None,
) -> None:
    """Run a topology, or continue where it stopped. Ctrl-C ends at an epoch boundary.

    If APP was edited since it was started last, the change is applied and shown. If the run was changed from
    elsewhere meanwhile, it goes on as it is, and what APP would change is shown; --apply applies it.
    """
    from penstock.cli.loading import load_app
    from penstock.cli.running import natural_end, run_topology

    time_between = _usage(parse_time)(every) if every else None
    settings = _usage(lambda _: parse_settings(conf or []))("")
    sources = _usage(lambda _: parse_decisions(source or []))("")
    app = load_app(target, values or ())
    place = directory or Path(".penstock") / app.topology.name
    if savepoint is not None:
        restore_for_run(savepoint, place, partitions=partitions, master=master)
    require_partitions(place, partitions)
    if ignore_state:
        drop_state(place, ignore_state, app.topology)
    run_topology(
        app.topology,
        app.live,
        directory=directory,
        master=master,
        partitions=partitions,
        hops=hops,
        every=time_between,
        until=until or natural_end(app.topology),
        memory=memory,
        allow_state_loss=allow_state_loss,
        sources=sources,
        apply=apply,
        app=app.identity,
        take_over=take_over,
        spark=settings,
    )


@app.command(cls=OnAnApp, context_settings=_APPS_OPTIONS)
def check(target: App, values: Values = None, hops: Hops = None, partitions: Partitions = None) -> None:
    """Check a topology and print its plan: stages, hops, where state lives. Starts no Spark."""
    from penstock.cli.loading import load
    from penstock.plan import explain

    typer.echo(explain(load(target, values or ()), hops=hops, partitions=partitions))


@app.command(cls=OnAnApp, context_settings=_APPS_OPTIONS)
def describe(
    target: App,
    values: Values = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flow chart.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show the nodes of a topology."""
    from penstock.cli.loading import load

    if mermaid and as_json:
        raise typer.BadParameter("choose one of --mermaid and --json")
    topology = load(target, values or ())
    if as_json:
        typer.echo(topology.to_json())
    else:
        typer.echo(topology.mermaid() if mermaid else topology.describe())


@app.command()
def incidents(
    directory: Run,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, one object per line.")] = False,
) -> None:
    """Say what went wrong in a run, and what was done about it."""
    from penstock.cli.incidents import show
    from penstock.control.incidents import read_incidents
    from penstock.control.run_directory import RunDirectory

    found = read_incidents(RunDirectory(directory).incidents)
    if as_json:
        for incident in found:
            typer.echo(incident.to_json())
    else:
        show(found)


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="One benchmark; without it, all of them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only the JSON object on standard output.")] = False,
    runs: Annotated[int, typer.Option(min=1, help="Times to run; the median is reported.")] = 3,
    listed: Annotated[bool, typer.Option("--list", help="Say what there is and end.")] = False,
) -> None:
    """Measure this machine. The last line is one JSON object per benchmark."""
    from penstock.bench import harness

    if listed:
        typer.echo(harness.listing())
    elif name is not None and name not in harness.BENCHES:
        raise typer.BadParameter(f"no benchmark {name!r}; there are: {', '.join(harness.BENCHES)}")
    else:
        for chosen in [name] if name else harness.BENCHES:
            harness.measure(harness.BENCHES[chosen], runs=runs, quiet=as_json)


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where results and the run go.")] = Path(
        "out/demo"
    ),
    seconds: Annotated[int, typer.Option(min=1, help="How long packets keep coming.")] = 30,
    rate: Annotated[int, typer.Option(min=1, help="Packets per second.")] = 20_000,
) -> None:
    """Track the applications in a mobile network's traffic live for half a minute and show what came out."""
    from penstock.cli.running import run_demo

    run_demo(directory, seconds=seconds, rate=rate)


@app.command()
def doctor(
    directory: Directory = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what this machine has, what is missing, how to get it, and whether the run in --dir can go on."""
    from penstock.cli.doctor import examine, report, to_json
    from penstock.cli.doctor_run import examine_run

    place = directory or Path(".penstock")
    checks = [*examine(place), *examine_run(place)]
    typer.echo(to_json(checks) if as_json else report(checks))
    if any(check.status == "missing" for check in checks):
        raise typer.Exit(1)


app.add_typer(net_app, name="net")
app.add_typer(savepoint_app, name="savepoint")
app.command()(rescale)
app.command()(chaos)
