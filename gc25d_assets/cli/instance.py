"""What the command line tells the Dagster instance directly: partitions, pool limits, runs nobody works on any more."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import DagsterInstance

PARTITIONS = "runs"
GPU_POOL = "gpu"


def open_instance(home: Path) -> DagsterInstance:
    """The instance of `home`, its tables made if it is new: by one process at a time, or SQLite gets two versions.

    Call it before any server starts; Dagster itself does not guard the creation.
    """
    from dagster import DagsterInstance

    fd = os.open(home / "gc25d-tables.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        instance = DagsterInstance.from_config(str(home))
        return instance
    finally:
        os.close(fd)


def register_runs(instance: DagsterInstance, runs: Sequence[str]) -> list[str]:
    """Registers every run as a partition, sorted; the runs that were new."""
    known = set(instance.get_dynamic_partitions(PARTITIONS))
    new = sorted(set(runs) - known)
    if new:
        instance.add_dynamic_partitions(PARTITIONS, new)
    return new


def vanished_runs(instance: DagsterInstance, runs: Sequence[str]) -> list[str]:
    """Registered runs that the source has no more."""
    return sorted(set(instance.get_dynamic_partitions(PARTITIONS)) - set(runs))


def set_pool_limit(instance: DagsterInstance, seats: int) -> None:
    """The pool of GPU steps gets as many slots as there are seats."""
    instance.event_log_storage.set_concurrency_slots(GPU_POOL, seats)


def bury_lost_runs(instance: DagsterInstance) -> int:
    """Fails the runs whose processes died with an earlier `gc25d`, and frees their slots; how many.

    Only for whoever holds the home and launches runs as local processes: then nobody else can be working on them.
    """
    from dagster import DagsterRunStatus, DefaultRunLauncher, RunsFilter

    if not isinstance(instance.run_launcher, DefaultRunLauncher):
        return 0
    lost = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
    runs = instance.get_runs(RunsFilter(statuses=lost))
    for run in runs:
        instance.report_run_failed(run, "The gc25d process that ran this was killed. Launch it again to resume.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return len(runs)


def materialized_runs(instance: DagsterInstance, keys: Sequence[Sequence[str]]) -> set[str]:
    """The partitions for which Dagster has a materialization of every one of these assets."""
    from dagster import AssetKey

    found = [instance.event_log_storage.get_materialized_partitions(AssetKey(list(key))) for key in keys]
    return set.intersection(*found) if found else set()
