"""Seats on the GPUs of this host: how many steps may sit on one at a time, and which one a step gets.

A step's start-up (imports, model, warm-up, first decodes) takes longer than encoding a whole run of 50 clips, so several steps
sit on one GPU and take turns: while one encodes its run, the others start up and decode ahead. Without turns they would
encode side by side, finish together, and start up together while the GPU idles (seen: 37 s of work, then 30 s of nothing). A seat is an `flock` on a file named by host and device UUID: the kernel drops it when the
process dies, however it dies. The files are never unlinked. The pool `gpu` counts the same seats, so that Dagster starts
no step that would have to wait here; the lock is what holds when Dagster's count is wrong.

Under Ray and Kubernetes the device comes from them, and `take_seat` stands aside.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gc25d_assets.devices import MASK, Device, visible_devices
from gc25d_core.errors import SystemFault

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

FOLDER_ENV = "GC25D_SEATS_DIR"
DEFAULT_SEATS = 4
GIB_PER_SEAT_AT_832X480 = 30.0
"""Memory one encoding step may need at 832x480, with room to spare; it grows with the number of pixels."""
POLL_SECONDS = 0.1
NOT_OURS = -1
"""Number of the seat where another executor gives out the devices."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A taken seat: the device (None for the CPU or a foreign executor), its number, and how long it was waited for."""

    device: Device | None
    number: int
    waited_seconds: float
    turn_file: Path | None = None
    """Lock file of the device; None where nobody shares it."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until no other step encodes on this device, and keeps the device to this one for the block.

        An `flock` like the seat: a holder that dies gives it up.
        """
        if self.turn_file is None:
            yield
            return
        fd = os.open(self.turn_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def __str__(self) -> str:
        if self.number == NOT_OURS:
            return "the executor's device"
        if self.device is None:
            return f"CPU, seat {self.number}"
        return f"GPU {self.device.index} ({self.device.name}, {self.device.uuid}), seat {self.number}"


def seats_of(device: Device, settings: Settings) -> int:
    """Seats on one device: the setting, less where memory is small, never less than 1."""
    wanted = getattr(settings, "seats", None) or DEFAULT_SEATS
    if device.memory_gib <= 0:
        return wanted
    w, h = settings.size
    need = GIB_PER_SEAT_AT_832X480 * (w * h) / (832 * 480)
    return max(1, min(wanted, int(device.memory_gib // max(need, 1.0))))


def count_seats(settings: Settings, environ: Mapping[str, str] | None = None) -> int:
    """How many steps the pool `gpu` lets run at a time on this host. Without a GPU: 1, the CPU."""
    if settings.device != "cuda":
        return 1
    return max(1, sum(seats_of(d, settings) for d in visible_devices(environ)))


@contextmanager
def take_seat(settings: Settings, *, executor: str = "local") -> Iterator[Seat]:
    """Waits for a seat, sets `CUDA_VISIBLE_DEVICES` to its device, and holds it until the end of the block.

    The mask is restored at the end, for callers that run several steps in one process (tests).

    Raises:
        SystemFault: no GPU is visible though the settings ask for one; or CUDA was initialised before the seat was
            taken, so that its device can no longer be chosen.
    """
    if executor != "local":
        yield Seat(None, NOT_OURS, 0.0)
        return
    if settings.device != "cuda":
        name = "cpu-" + hashlib.sha256(os.fsencode(Path(settings.out).absolute())).hexdigest()[:16]
        with _hold([(name, None, 0)]) as seat:
            yield seat
        return
    refuse_initialised_cuda()
    devices = visible_devices()
    if not devices:
        raise SystemFault(
            f"device is cuda, but no GPU is visible ({MASK}={os.environ.get(MASK)!r}): check `nvidia-smi -L` and the "
            f"mask, or set GC25D_DEVICE=cpu"
        )
    chairs = sorted(
        ((f"{d.uuid}-{n}".replace("/", "_"), d, n) for d in devices for n in range(seats_of(d, settings))),
        key=lambda chair: chair[2],
    )
    before = os.environ.get(MASK)
    with _hold(chairs) as seat:
        assert seat.device is not None
        os.environ[MASK] = seat.device.uuid
        try:
            yield seat
        finally:
            if before is None:
                del os.environ[MASK]
            else:
                os.environ[MASK] = before


def refuse_initialised_cuda() -> None:
    """SystemFault where torch has already chosen its devices in this process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise SystemFault("CUDA was initialised before a seat was taken: the seat's device can no longer be chosen")


def seats_folder() -> Path:
    """Folder of the lock files: one per user and host, the same for every process, mode 0700."""
    folder = Path(os.environ.get(FOLDER_ENV) or f"/tmp/gc25d-seats-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
        raise SystemFault(f"{folder} is not a folder of this user: remove it, or set {FOLDER_ENV} to one that is")
    return folder


@contextmanager
def _hold(chairs: Sequence[tuple[str, Device | None, int]]) -> Iterator[Seat]:
    folder, host = seats_folder(), socket.gethostname()
    start = time.monotonic()
    while True:
        for name, device, number in chairs:
            fd = _try_lock(folder / f"{host}-{name}.lock")
            if fd is None:
                continue
            try:
                turn = None if device is None else folder / f"{host}-{device.uuid.replace('/', '_')}.turn"
                yield Seat(device, number, time.monotonic() - start, turn)
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)  # also for a forked child that still holds a copy of the descriptor
                os.close(fd)
            return
        time.sleep(POLL_SECONDS)


def _try_lock(path: Path) -> int | None:
    """A descriptor (close-on-exec) that holds the lock on `path`, or None where another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    try:
        same = os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        same = False
    if not same:  # a cleaner of /tmp removed the file between open and lock: the lock would guard nothing
        os.close(fd)
        return None
    os.utime(fd)
    os.truncate(fd, 0)
    os.write(fd, f"{os.getpid()}\n".encode())
    return fd
