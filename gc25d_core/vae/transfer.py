"""What is under way between host and device: frames going up, a clip being computed, and the clock on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import torch

Precision = Literal["exact", "fast"]


@dataclass(frozen=True)
class Upload:
    """Frames on (or on their way to) the device; `host` keeps the pinned source alive until the copy is done."""

    frames: torch.Tensor
    host: torch.Tensor
    done: torch.cuda.Event | None

    def wait(self) -> None:
        """Makes the current stream wait for the copy."""
        if self.done is not None:
            stream = torch.cuda.current_stream(self.frames.device)
            stream.wait_event(self.done)
            self.frames.record_stream(stream)


def upload(host: torch.Tensor, device: torch.device, stream: torch.cuda.Stream | None) -> Upload:
    """Starts copying uint8 [T,H,W,3] to the device on `stream`, through pinned memory. Without a stream nothing moves."""
    if stream is None:
        return Upload(host, host, None)
    pinned = host if host.is_pinned() else host.pin_memory()
    with torch.cuda.stream(stream):
        sent = pinned.to(device, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
    return Upload(sent, pinned, done)


class Clock:
    """Seconds of work queued between construction and `stop`: the device's own on CUDA, wall time on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device.type == "cuda" else None
        self._mark(0)

    def stop(self) -> None:
        self._mark(1)

    def seconds(self) -> float:
        """Waits for the work, then its seconds."""
        if self._events is None:
            return self._stopped - self._started
        self._events[1].synchronize()
        return self._events[0].elapsed_time(self._events[1]) / 1000

    def _mark(self, i: int) -> None:
        if self._events is not None:
            self._events[i].record()
        elif i == 0:
            self._started = time.perf_counter()
        else:
            self._stopped = time.perf_counter()


@dataclass(frozen=True)
class Running:
    """A clip whose work is queued; `stored` is valid once the clock has been read."""

    upload: Upload
    stored: torch.Tensor
    used: Precision
    finite: torch.Tensor | None
    clock: Clock
