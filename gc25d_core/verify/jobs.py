"""Work spread over processes: spawned, so that no lock or thread of the caller is copied, and never left alone."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from gc25d_core.errors import SystemFault

T = TypeVar("T")
Job = tuple[Callable[..., T], tuple[Any, ...]]
"""A module-level function and its arguments, all picklable."""


def run_jobs(jobs: Sequence[Job[T]], workers: int) -> Iterator[tuple[int, T]]:
    """(position, result) of each job as it finishes; in this process where one worker or one job makes a pool useless.

    Raises:
        SystemFault: a worker was killed.
    """
    if workers <= 1 or len(jobs) <= 1:
        for i, (function, args) in enumerate(jobs):
            yield i, function(*args)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context, initializer=_start_worker) as pool:
        futures = {pool.submit(function, *args): i for i, (function, args) in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as e:
            raise SystemFault("a verification worker was killed (out of memory?); use fewer workers") from e
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """One thread a worker, and an end with the parent however the parent ends."""
    import cv2

    cv2.setNumThreads(0)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True, name="end-with-parent").start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
