"""Registers the runs on disk as partitions and observes their data versions. Launches nothing."""

import json

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from gc25d_assets.partitions import RUNS, key
from gc25d_assets.settings_env import settings as env_settings
from gc25d_core.errors import SettingsError, SourceError
from gc25d_core.settings import Settings


@dg.sensor(
    name="runs_on_disk",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Registers new runs of the source as partitions, in order, observes their data versions, and says which "
    "registered runs have vanished. Never deletes a partition, never launches anything.",
)
def runs_on_disk(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    from gc25d_core.source import list_runs

    try:
        settings = env_settings()
        on_disk = list_runs(settings.src)
    except SettingsError as e:
        return dg.SkipReason(str(e))
    registered = context.instance.get_dynamic_partitions(str(RUNS.name))
    new = sorted(set(on_disk) - set(registered))
    vanished = sorted(set(registered) - set(on_disk))
    seen = _seen(context.cursor)
    if vanished and vanished != seen["vanished"]:
        context.log.warning(f"vanished from {settings.src}, still registered: {', '.join(vanished)}")
    versions = _versions(context, settings, on_disk)
    changed = {run: v for run, v in versions.items() if seen["versions"].get(run) != v}
    cursor = json.dumps({"versions": versions, "vanished": vanished})
    gone = f"; vanished: {', '.join(vanished)}" if vanished else ""
    if not new and not changed:
        context.update_cursor(cursor)
        return dg.SkipReason(f"{len(on_disk)} runs, none new or changed{gone}")
    context.log.info(f"{len(new)} new, {len(changed)} changed of {len(on_disk)} runs{gone}")
    return dg.SensorResult(
        dynamic_partitions_requests=[RUNS.build_add_request(new)] if new else [],
        asset_events=[
            dg.AssetObservation(asset_key=key("source_run"), partition=run, tags={DATA_VERSION_TAG: version})
            for run, version in sorted(changed.items())
        ],
        cursor=cursor,
    )


def _versions(context: dg.SensorEvaluationContext, settings: Settings, runs: list[str]) -> dict[str, str]:
    from gc25d_core.source import run_digest

    versions = {}
    for run in runs:
        try:
            versions[run] = run_digest(settings.src, run)
        except SourceError as e:
            context.log.warning(str(e))
    return versions


def _seen(cursor: str | None) -> dict[str, dict[str, str]]:
    empty: dict[str, dict[str, str]] = {"versions": {}, "vanished": {}}
    return {**empty, **json.loads(cursor)} if cursor else empty
