"""Processes that do not outlive the one they work for.

A run worker that is killed leaves its step alive by default, and the step its GPU. Two means close that, each where it is
sound:

* `die_with_parent` asks the kernel (PR_SET_PDEATHSIG) to kill this process when its parent dies. The kernel watches the
  parent *thread*, so this is for children of a thread that lives as long as its process: steps (started by the main
  thread of a run worker) and worker processes of a step.
* `watch_parent` waits on a pidfd of the parent process in a thread. Run workers and code servers need this one: a code
  server starts run workers from a request handler thread, which may end long before the server does.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
DIE_WITH_PARENT_ENV = "GC25D_DIE_WITH_PARENT"
_STEP_MODULE = "dagster._core.executor.child_process_executor"
_watching = threading.Event()


def die_with_parent(expected_parent: int | None = None, *, signum: int = signal.SIGKILL) -> None:
    """From here on the kernel sends this process `signum` when the thread that started it ends.

    Survives `exec`, is not inherited by children. If the parent is already another one than expected (it died before
    this call) the process ends at once.

    Args:
        expected_parent: pid of the process that should be the parent; without it, the one `multiprocessing` knows, or
            the present one.
    """
    if sys.platform != "linux":
        return
    if expected_parent is None:
        known = multiprocessing.parent_process()
        expected_parent = known.pid if known is not None and known.pid is not None else os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"prctl(PR_SET_PDEATHSIG): {os.strerror(errno)}")
    if os.getppid() != expected_parent:
        os.kill(os.getpid(), signum)


def watch_parent(expected_parent: int | None = None) -> None:
    """A daemon thread that kills this process (SIGKILL) as soon as its parent process is gone. Idempotent.

    Raises:
        RuntimeError: never in the caller; a parent that is gone already ends the process at once.
    """
    if sys.platform != "linux" or _watching.is_set():
        return
    _watching.set()
    if expected_parent is None:
        known = multiprocessing.parent_process()
        expected_parent = known.pid if known is not None and known.pid is not None else os.getppid()
    threading.Thread(target=_watch, args=(expected_parent,), name="gc25d-watch-parent", daemon=True).start()


def _watch(parent: int) -> None:
    try:
        fd = os.pidfd_open(parent)
    except OSError:  # gone already, or a kernel without pidfd: the loop below decides
        fd = -1
    if fd >= 0:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        while os.getppid() == parent and not poller.poll(5000):
            pass
        os.close(fd)
    while os.getppid() == parent:
        time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def is_step_process() -> bool:
    """Whether this process was started by Dagster's multiprocess executor to run one step."""
    target = getattr(multiprocessing.current_process(), "_target", None)
    return getattr(target, "__module__", None) == _STEP_MODULE


def tie_to_parent() -> None:
    """Called wherever the definitions are loaded: binds this process to its parent where that is right.

    A step process dies with its run worker, always. Code servers and run workers die with what started them where
    `GC25D_DIE_WITH_PARENT=1` says so (the command line sets it); a plain `dagster dev` keeps Dagster's own behaviour.
    """
    if is_step_process():
        die_with_parent()
    elif os.environ.get(DIE_WITH_PARENT_ENV) == "1" and is_dagster_server():
        watch_parent()


def is_dagster_server() -> bool:
    """Whether this process is a code server, or a run worker that a code server started."""
    target = getattr(multiprocessing.current_process(), "_target", None)
    if getattr(target, "__module__", None) == "dagster._grpc.impl":
        return True
    return multiprocessing.parent_process() is None and _argv_says_server(sys.argv)


def _argv_says_server(argv: Sequence[str]) -> bool:
    words = list(argv[1:4])
    return words[:2] in (["api", "grpc"], ["code-server", "start"]) or words[:2] == ["api", "execute_run"]
