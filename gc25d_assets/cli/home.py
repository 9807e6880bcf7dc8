"""The Dagster home of a data set, and the lock that keeps it at one daemon.

The home is DAGSTER_HOME where set, else `<out>/.dagster`: status lives beside the data it speaks of. Whoever runs servers on
it (`gc25d up`, or `gc25d build` with its own) holds an exclusive `flock` on `gc25d-up.lock`; the kernel drops it at death,
so there are no stale locks. The holder writes into the file who it is and where its servers listen.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gc25d_core.errors import SettingsError

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

LOCK_NAME = "gc25d-up.lock"
FOLDER_PREFIX = "gc25d-servers-"


@dataclass(frozen=True)
class Holder:
    """The process whose servers run on a home. `url` is None until they answer."""

    pid: int
    command: str  # "up" or "build"
    url: str | None
    settings: dict[str, Any]  # of Settings.to_json: what its code server builds with
    folder: str  # of its servers' socket; a killed holder leaves it behind

    @classmethod
    def read(cls, path: Path) -> Holder | None:
        try:
            return cls(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None  # not written yet


class HomeBusy(RuntimeError):
    """Another process runs servers on this home."""

    def __init__(self, home: Path, holder: Holder | None) -> None:
        self.holder = holder
        who = f"`gc25d {holder.command}` (process {holder.pid})" if holder else "another process"
        super().__init__(f"{who} already runs servers on {home}; one instance never has two daemons")


def prepare_home(settings: Settings) -> Path:
    """The absolute home of this data set, made if it is not there, with the project's dagster.yaml if it has none."""
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named).expanduser().absolute() if named else settings.out / ".dagster"
    if odd := sorted(set("#?") & set(str(home))):
        raise SettingsError(
            [
                f"Dagster home {home}: its path holds {' '.join(odd)}, which the database's address cannot; rename the folder"
            ]
        )
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    if not config.exists():
        from gc25d_assets.instance_yaml import dagster_yaml
        from gc25d_assets.seats import count_seats

        fresh = home / f"dagster.yaml.tmp{os.getpid()}"
        fresh.write_text(dagster_yaml(count_seats(settings)))
        os.replace(fresh, config)
    return home


class HomeLock:
    """The held lock of one home."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def announce(self, holder: Holder) -> None:
        """Writes who holds the home, in place: the lock belongs to this very file."""
        data = json.dumps(asdict(holder)).encode()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, data, 0)


@contextmanager
def hold_home(home: Path, *, patience_s: float = 1.0) -> Iterator[HomeLock]:
    """Holds the home; HomeBusy if another process does so for longer than `patience_s`."""
    path = home / LOCK_NAME
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HomeBusy(home, Holder.read(path)) from None
                time.sleep(0.1)
        _clear_after(Holder.read(path))
        os.ftruncate(fd, 0)
        yield HomeLock(fd)
    finally:
        os.close(fd)


def _clear_after(dead: Holder | None) -> None:
    """Removes the socket folder of a holder that was killed (a clean end has removed it)."""
    if dead is not None and Path(dead.folder).name.startswith(FOLDER_PREFIX):
        shutil.rmtree(dead.folder, ignore_errors=True)


def is_held(home: Path) -> bool:
    """Whether a process runs servers on this home."""
    try:
        fd = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def wait_for_holder(home: Path, *, patience_s: float = 60.0) -> Holder | None:
    """Who runs servers on this home, once they answer; None if nobody does."""
    deadline = time.monotonic() + patience_s
    while is_held(home):
        holder = Holder.read(home / LOCK_NAME)
        if holder is not None and holder.url is not None:
            return holder
        if time.monotonic() > deadline:
            raise HomeBusy(home, holder)
        time.sleep(0.2)
    return None
