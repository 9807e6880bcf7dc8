"""The index follows the disk, not events.

Every tick compares what lies on disk with what the last index was built from, and launches the index where they differ.
No order of events can lose an update: as long as they differ, the next tick sees it. The verification, which reads
everything, waits until nothing is being built.
"""

import time
from collections.abc import Iterable, Sequence

import dagster as dg
import msgspec
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from gc25d_assets.jobs import INDEX_KEYS, REPORT_KEY, RUN_KEYS, build_index, build_reports
from gc25d_assets.settings_env import settings as env_settings
from gc25d_core.errors import SettingsError
from gc25d_core.settings import Settings

BACKOFF_SECONDS = 30.0
MAX_BACKOFF_SECONDS = 1800.0
PAUSE_WHILE_BUILDING_SECONDS = 60.0
"""While runs are being built the index changes all the time; once a minute is often enough."""
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
PASSING_REASONS = ("while it was verified", "while they were verified", "is writing to this data set")
"""In a report's reasons against READY: those that the next verification need not meet again."""
_JOB_KEYS = {"build_runs": RUN_KEYS, "build_index": INDEX_KEYS, "build_reports": (*INDEX_KEYS, REPORT_KEY)}


class Launched(msgspec.Struct, frozen=True):
    """The last launch of this sensor, kept in its cursor."""

    state: str = ""
    """Of the disk, at the launch."""
    job: str = ""
    run_key: str = ""
    at: float = 0.0
    """Unix seconds."""
    failures: int = 0
    """Launches in a row that failed, or changed nothing about the difference."""


@dg.sensor(
    name="index_follows_disk",
    jobs=[build_index, build_reports],
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Launches index, look change report and pool when the rows on disk differ from those in the last index, and "
    "the verification with them when nothing is being built. After a failure it waits longer each time, up to 30 min.",
)
def index_follows_disk(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    try:
        settings = env_settings()
        wanted, state = what_is_stale(settings)
    except SettingsError as e:
        return dg.SkipReason(str(e))
    if wanted is None:
        return dg.SkipReason("the index and the report are those of what lies on disk")
    busy = busy_keys(context.instance)
    if busy & {*INDEX_KEYS, REPORT_KEY}:
        return dg.SkipReason("index or report are queued or running")
    building = bool(busy & set(RUN_KEYS))
    if wanted == "report" and building:
        return dg.SkipReason("the verification waits until nothing is being built")
    job = build_index.name if building else build_reports.name
    last = msgspec.json.decode(context.cursor, type=Launched) if context.cursor else Launched()
    failures = _failures(context.instance, last, state, job)
    wait = last.at + max(backoff(failures), PAUSE_WHILE_BUILDING_SECONDS if building else 0.0) - time.time()
    if wait > 0 and not failures:
        return dg.SkipReason(f"runs are being built: the index again in {wait:.0f} s")
    if wait > 0:
        return dg.SkipReason(
            f"the last {failures} launches changed nothing, or failed (see the runs of {last.job}): again in {wait:.0f} s"
        )
    launch = Launched(state, job, f"{job}-{state[:12]}-{time.time_ns()}", time.time(), failures)
    context.update_cursor(msgspec.json.encode(launch).decode())
    return dg.RunRequest(run_key=launch.run_key, job_name=job, tags={"dagster/priority": "10"})  # ahead of a backfill


def what_is_stale(settings: Settings) -> tuple[str | None, str]:
    """(`index`, `report` or None, hash of the state that says so). SettingsError without source.

    Reads rows' hashes and the index files, which grow with the clips, and no per-clip file.
    """
    from gc25d_core.index import index_is_stale, index_state_hash, runs_with_rows
    from gc25d_core.outputs.publish import read_json

    state = index_state_hash(settings)
    if index_is_stale(settings):
        # Before the first row there is nothing to index; faults alone come with rows (run_index writes an empty file).
        return ("index" if runs_with_rows(settings) else None), state
    return ("report" if _report_is_stale(settings, read_json(settings.paths.runs_json)) else None), state


def _report_is_stale(settings: Settings, runs: object) -> bool:
    """Whether a verification would say something new: another index, READY removed since, or a reason that has passed."""
    from gc25d_core.outputs.publish import read_json

    if not isinstance(runs, dict) or not runs.get("clips"):
        return False
    try:
        report = read_json(settings.paths.verify_report)
    except ValueError:
        return True
    if not isinstance(report, dict) or report.get("clips_hash") != runs.get("clips_hash"):
        return True
    if report.get("ready"):
        return not settings.paths.ready.exists()
    reasons = report.get("not_ready_because") or [""]
    return all(any(word in reason for word in PASSING_REASONS) for reason in reasons)


def busy_keys(instance: dg.DagsterInstance) -> set[dg.AssetKey]:
    """Keys of this graph that an unfinished run is to make, whichever way it was launched."""
    busy: set[dg.AssetKey] = set()
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)):
        selected: Iterable[dg.AssetKey] | None = run.asset_selection
        busy.update(selected if selected is not None else _JOB_KEYS.get(run.job_name, ()))
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        busy.update(backfill.asset_selection or _JOB_KEYS["build_runs"])  # its next runs may not be queued yet
    return busy


def backoff(failures: int) -> float:
    """Seconds to wait after so many launches in a row that failed: 30, 60, 120, ... 1800; 0 after none."""
    return min(BACKOFF_SECONDS * 2 ** (failures - 1), MAX_BACKOFF_SECONDS) if failures else 0.0


def _failures(instance: dg.DagsterInstance, last: Launched, state: str, job: str) -> int:
    """Failures in a row up to now, the last launch included."""
    if not last.run_key:
        return 0
    runs: Sequence[dg.DagsterRun] = instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": last.run_key}), limit=1)
    if not runs or runs[0].status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
        return last.failures + 1
    # It succeeded. The same difference again means that it did not help: no reason to hurry.
    return last.failures + 1 if (last.state, last.job) == (state, job) else 0
