"""READY: the one file that says "this data set was verified, use it". And the lock that keeps it honest.

Every builder holds the shared side of a lock while it writes and removes READY before its first real write. A verifier
writes READY only under the exclusive side, after looking once more that what it verified is still what lies there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gc25d_core.errors import SystemFault
from gc25d_core.outputs.publish import publish, publish_bytes, publish_json, sync_folder, unlink

if TYPE_CHECKING:
    from gc25d_core.settings import Settings


class Build:
    """A builder's permission to write below `out`."""

    def __init__(self, ready: Path) -> None:
        self._ready = ready
        self._folders: set[Path] = set()
        self.wrote = False

    def before_write(self) -> None:
        """Remove READY. Called by every method here before it changes anything."""
        if not self.wrote or self._ready.exists():
            if unlink(self._ready):
                sync_folder(self._ready.parent)
            self.wrote = True

    def publish(self, path: Path, write: Callable[[BinaryIO], None]) -> int:
        """Publish a file; its folder is fsynced when the build ends."""
        self.before_write()
        self._folders.add(path.parent)
        return publish(path, write)

    def publish_changed(self, path: Path, data: bytes) -> bool:
        """Publish bytes unless the file already holds exactly them. Returns whether it wrote."""
        try:
            if path.read_bytes() == data:
                return False
        except FileNotFoundError:
            pass
        self.before_write()
        self._folders.add(path.parent)
        publish_bytes(path, data)
        return True

    def unlink(self, path: Path) -> bool:
        """Remove a file that no longer belongs."""
        if not path.exists():
            return False
        self.before_write()
        self._folders.add(path.parent)
        return unlink(path)

    def sync(self) -> None:
        """Make all names written so far durable."""
        for folder in sorted(self._folders):
            sync_folder(folder)
        self._folders.clear()


@contextlib.contextmanager
def _lock(settings: Settings, how: int) -> Iterator[None]:
    try:
        settings.paths.locks.mkdir(parents=True, exist_ok=True)
        fd = os.open(settings.paths.locks / "ready.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as e:
        raise SystemFault(
            f"{settings.out} cannot be written: {e.strerror}; check the folder's permissions and free space"
        ) from e
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def building(settings: Settings) -> Iterator[Build]:
    """Hold the shared side of the lock while building. Waits only for a verifier that is writing READY."""
    with _lock(settings, fcntl.LOCK_SH):
        build = Build(settings.paths.ready)
        try:
            yield build
        finally:
            build.sync()


def write_ready(settings: Settings, value: dict[str, Any], still_true: Callable[[], str | None]) -> str | None:
    """Write READY with `value` unless `still_true` names a reason not to. Returns the reason, None when written.

    A builder at work is a reason too: what it writes was not verified.
    """
    try:
        with _lock(settings, fcntl.LOCK_EX | fcntl.LOCK_NB):
            reason = still_true()
            if reason is None:
                publish_json(settings.paths.ready, {**value, "time": datetime.now(UTC).isoformat(timespec="seconds")})
                sync_folder(settings.out)
            return reason
    except BlockingIOError:
        return "a build is writing to this data set at the moment"


def remove_ready(settings: Settings) -> bool:
    """Remove READY, as a verification with failures does. Returns whether it was there."""
    removed = unlink(settings.paths.ready)
    if removed:
        sync_folder(settings.out)
    return removed
