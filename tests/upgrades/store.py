"""``python -m tests.upgrades.store FOLDER``: make a run and a savepoint to be stored for the upgrade tests.

Runs the shop on Spark for some epochs and packs what a later Penstock needs to go on. Do this *before* a
format changes, and leave the archives of earlier formats as they are: they cannot be made again.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import cloudpickle

import penstock as ps
from penstock.cli.loading import load
from penstock.connect.sealed import DIGEST_BYTES, digest
from penstock.control.savepoints import create
from tests.upgrades.shop import APP

_LEFT_OUT = {"lock", "spark.log", "log4j2.properties", "savepoints", "handover"}
_LAST_EPOCH = 3


def main(folder: Path) -> None:
    """Run the shop from a folder that says nothing about this machine, and pack what it leaves."""
    place = Path(tempfile.gettempdir()) / "stored-shop"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    top = load(str(shutil.copy(APP, place)))
    run = place / "run"
    with ps.start(top, directory=run, master="local[2]", partitions=2, until="finished") as handle:
        while (progress := handle.progress()) is None or progress.epoch < _LAST_EPOCH:
            handle.poll(0.05)
    for path in run.glob("versions/*.program"):
        _forget_paths(path)
    savepoint = create(run)
    _pack(run, folder / "run.tar.xz")
    _pack(savepoint.path, folder / "savepoint.tar.xz")
    shutil.rmtree(place)


def _forget_paths(path: Path) -> None:
    """Leave of the search path only what tells which Python it was."""
    values = cloudpickle.loads(path.read_bytes()[DIGEST_BYTES:])
    version = sys.version_info
    values["search_path"] = [f"/usr/lib/python{version.major}{version.minor}.zip"]
    body = cloudpickle.dumps(values)
    path.write_bytes(digest(body) + body)


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if name.parts[0] in _LEFT_OUT or not path.is_file():
                continue
            member = tarfile.TarInfo(name.as_posix())
            content = path.read_bytes()
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
