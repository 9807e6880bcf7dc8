"""Runs whose worker died together with its code server.

A code server marks the runs of its dead workers as failed. Where it died too (power cut, out of memory, SIGKILL of
everything) nobody does: Dagster's run monitoring cannot ask the default run launcher, and such a run would stay "started"
for ever, hold its place in the queue, and keep the index waiting. Sensors are evaluated by the code server, where the run
workers of this host can be seen.
"""

import json
import os
import re
import socket
from pathlib import Path

import dagster as dg
import psutil

from gc25d_assets.executors import executor_name
from gc25d_core.errors import SettingsError

GRPC_INFO_TAG = ".dagster/grpc_info"
CLOCK_SLACK_SECONDS = 5.0
_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")


def lost_runs(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Runs in progress whose worker, and the code server that started it, are both gone from this host.

    Runs of which that cannot be known (another launcher, another host, no pid recorded) are not among them.
    """
    if not isinstance(instance.run_launcher, dg.DefaultRunLauncher):
        return []
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]))
    return [run for run in started if not _server_answers(run) and _worker_is_gone(instance, run)]


def _server_answers(run: dg.DagsterRun) -> bool:
    """Whether the code server that started a run may still look after it; True where it is not one of this host."""
    info = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
    if path := info.get("socket"):
        return Path(path).exists() and _connects(socket.AF_UNIX, path)
    if info.get("host") in ("localhost", "127.0.0.1") and info.get("port"):
        return _connects(socket.AF_INET, ("127.0.0.1", int(info["port"])))
    return True


def _connects(family: int, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def _worker_is_gone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        if found := _STARTED.search(entry.message or entry.user_message):
            return not _alive_since(int(found[1]), entry.timestamp)
    return False


def _alive_since(pid: int, timestamp: float) -> bool:
    """Whether process `pid` exists and is not a later one that was given the same number."""
    if pid == os.getpid():
        return True
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= timestamp + CLOCK_SLACK_SECONDS
    except psutil.NoSuchProcess:
        return False


@dg.sensor(
    name="lost_runs",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks runs as failed whose worker died together with its code server, which Dagster does not notice. "
    "Launch such a partition again: work resumes clip by clip.",
)
def lost_runs_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    try:
        if executor_name() != "local":
            return dg.SkipReason("the executor is not local")
    except SettingsError as e:
        return dg.SkipReason(str(e))
    lost = lost_runs(context.instance)
    for run in lost:
        context.instance.report_run_failed(
            run, "The run worker and its code server are gone. Launch it again: work resumes clip by clip."
        )
    names = ", ".join(run.run_id[:8] for run in lost)
    return dg.SkipReason(f"marked as failed: {names}" if lost else "no run is lost")
