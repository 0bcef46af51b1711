"""Where the sinks of a run have written, so that a place which has vanished is not begun anew.

A disk that is not mounted leaves an empty folder. A sink that finds nothing there would make a new table,
which is hidden when the disk comes back.
"""

from __future__ import annotations

from penstock.connect.sealed import read_sealed, write_sealed
from penstock.connect.sink import Sink, file_name
from penstock.control.run_directory import RunDirectory
from penstock.errors import RunDirectoryBroken, SinkUnavailable


def require_place(run: RunDirectory, name: str, sink: Sink) -> None:
    """Raise SinkUnavailable if what this run has written to a sink is gone."""
    note = run.sink_places / f"{file_name(name)}.json"
    if sink.place is None or sink.place.exists():
        return
    try:
        noted = read_sealed(note, next_step=f"delete it, if {sink.place} shall be begun anew")["place"]
    except FileNotFoundError:
        return
    if noted == str(sink.place):
        step = f"put it back and the run goes on; to begin it anew, delete {note}"
        what = "what earlier epochs have written is gone"
        raise SinkUnavailable(sink=name, what=what, where=noted, next_step=step)


def note_place(run: RunDirectory, name: str, sink: Sink) -> None:
    """Remember where a sink has written."""
    note = run.sink_places / f"{file_name(name)}.json"
    if sink.place is None or not sink.place.exists():
        return
    try:
        is_noted = read_sealed(note, next_step="")["place"] == str(sink.place)
    except (FileNotFoundError, RunDirectoryBroken):
        is_noted = False
    if not is_noted:
        write_sealed(note, {"place": str(sink.place)})
