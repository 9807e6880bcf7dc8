"""Ctrl-C and SIGTERM as one exception, so that every command stops in order and says how to go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A person or the machine asked this process to end. `exit_code` is 128 + signal number."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)

    @property
    def exit_code(self) -> int:
        return 128 + self.number


@contextmanager
def signals_raise() -> Iterator[None]:
    """Within, SIGINT, SIGTERM and SIGHUP raise `Stopped` in the main thread, the first of them only.

    The others are held back from then on, so that cleaning up is not cut short. SIGINT or SIGHUP that was ignored when
    this process started (`nohup`, a background job of a script) stays without effect, but through a handler: an ignored
    signal would be inherited by the servers, and Dagster's map SIGTERM onto whatever SIGINT does.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping or number in deaf:
            return
        stopping = True
        raise Stopped(number)

    deaf = {n for n in _SIGNALS if n != signal.SIGTERM and signal.getsignal(n) == signal.SIG_IGN}
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
