"""`penstock net …`: commands about captures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli import numbers

if TYPE_CHECKING:
    from penstock.net.inspection import Inspection, Tally

app = typer.Typer(help="Look into captures of network traffic.", no_args_is_help=True, rich_markup_mode=None)
_MOST_LINES = 20


@app.callback()
def _group() -> None:
    """Look into captures of network traffic."""


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="pcap or pcapng.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what a capture holds and what in it is malformed."""
    from penstock.net.inspection import inspect as look

    found = look(file)
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else report(found))


@app.command()
def synth(
    out: Annotated[Path, typer.Argument(dir_okay=False, writable=True, help="A name in .pcap or .pcapng.")],
    rate: Annotated[float, typer.Option(help="Packets per second of the traffic.")] = 10_000,
    duration: Annotated[str, typer.Option(help="For how long exchanges begin, e.g. 10s or 5m.")] = "10s",
    subscribers: Annotated[int, typer.Option(help="Who sends.")] = 1_000,
    cells: Annotated[int, typer.Option(help="Where they are.")] = 50,
    tunnel: Annotated[
        Literal["none", "gtp"], typer.Option(help="Plain packets, or GTP-U with a control plane.")
    ] = "none",
    mean_bytes: Annotated[
        float | None, typer.Option(help="Mean length of a packet.", show_default="as the protocols give")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
) -> None:
    """Write a capture of generated traffic and say what is in it."""
    from penstock.net.synth import Traffic, write

    traffic = Traffic(
        rate=rate,
        duration=duration,
        subscribers=subscribers,
        cells=cells,
        tunnel=tunnel,
        mean_bytes=mean_bytes,
        seed=seed,
    )
    truth = write(out, traffic)
    typer.echo(f"{out}: {truth.packets} packets, {numbers.size(truth.bytes)}, {truth.flows.height} flows")
    for name, packets, size, flows in truth.applications.iter_rows():
        typer.echo(f"  {name:<10} {packets:>10} packets  {numbers.size(size):>10}  {flows:>8} flows")


@app.command()
def compare(
    path: Annotated[
        Path,
        typer.Argument(exists=True, help="A folder of captures with NAME.out (nDPI) or NAME.test (Arkime)."),
    ],
    engine: Annotated[
        Literal["best", "ndpi", "builtin"], typer.Option(help="Who says what flows are.")
    ] = "best",
    zeek: Annotated[
        Path | None, typer.Option(exists=True, help="A conn.log of Zeek's about the one capture PATH.")
    ] = None,
    out: Annotated[Path, typer.Option(dir_okay=False, help="The report is written here too.")] = Path(
        "out/difference-report.txt"
    ),
) -> None:
    """List every difference from what other tools say of the same captures; the last line is JSON."""
    from penstock.net.difference_report import difference_report

    found = difference_report(path, choice=engine, zeek=zeek)
    text = "\n".join(found.lines())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
    typer.echo(text)
    typer.echo(json.dumps(found.to_json()))


def report(found: Inspection) -> str:
    """The summary as text: one table per question."""
    packed = "" if found.compression == "none" else f", {found.compression}"
    lines = [
        f"{found.path}: {found.format}{packed}",
        f"{found.packets} packets, {numbers.size(found.bytes)} on the wire, "
        f"{numbers.size(found.captured_bytes)} captured",
    ]
    if found.first_time:
        lines.append(f"{found.first_time} to {found.last_time}")
    if found.blocks:
        lines.append("blocks: " + ", ".join(f"{kind} {count}" for kind, count in found.blocks.items()))
    for title, rows in (
        ("link types", found.link_types),
        ("protocols", found.protocols),
        ("tunnels", found.tunnels),
    ):
        lines += _table(title, rows)
    lines += _table("not, or not fully, decoded", found.malformed)
    if found.damaged:
        lines += ["", f"damaged stretches: {found.damaged}"]
        lines += [f"  byte {f.begin} to {f.end}: {f.reason}" for f in found.damage[:_MOST_LINES]]
        if found.damaged > _MOST_LINES:
            lines.append(f"  … and {found.damaged - _MOST_LINES} more")
    return "\n".join(lines)


def _table(title: str, rows: tuple[Tally, ...]) -> list[str]:
    if not rows:
        return []
    width = max(len(title), *(len(row.name) for row in rows[:_MOST_LINES]))
    lines = ["", f"{title:<{width}}  {'packets':>10}  {'bytes':>12}"]
    lines += [f"{row.name:<{width}}  {row.packets:>10}  {row.bytes:>12}" for row in rows[:_MOST_LINES]]
    return [*lines, f"… and {len(rows) - _MOST_LINES} more"] if len(rows) > _MOST_LINES else lines
