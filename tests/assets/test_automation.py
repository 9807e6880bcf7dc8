"""What happens by itself, and what does not."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import msgspec
import pytest

from gc25d_assets import settings_env
from gc25d_assets.automation import index as index_sensor
from gc25d_assets.automation.index import Launched, backoff, index_follows_disk
from gc25d_assets.automation.runs import runs_on_disk
from gc25d_assets.automation.schedules import pool_daily
from gc25d_assets.definitions import defs
from gc25d_assets.jobs import INDEX_KEYS, REPORT_KEY, RUN_KEYS
from gc25d_assets.partitions import RUNS, key

PointAt = Callable[[Path, Path], dict[str, str]]


def tick(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None):  # type: ignore[no-untyped-def]
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, repository_def=defs.get_repository_def(), sensor_name=sensor.name
    ) as context:
        return sensor.evaluate_tick(context)


@pytest.fixture
def src(source: Path, tmp_path: Path) -> Path:
    """A copy of the source that a test may change."""
    return Path(shutil.copytree(source, tmp_path / "src"))


# --- runs_on_disk


def test_without_a_source_the_sensors_skip_and_say_what_to_set(instance: dg.DagsterInstance) -> None:
    for sensor in (runs_on_disk, index_follows_disk):
        result = tick(sensor, instance)
        assert not result.run_requests
        assert "GC25D_SRC" in str(result.skip_message)


def test_new_runs_are_registered_in_order_and_observed_but_nothing_is_launched(
    src: Path, tmp_path: Path, point_at: PointAt, instance: dg.DagsterInstance
) -> None:
    point_at(src, tmp_path / "out")
    (src / "no run").mkdir()
    result = tick(runs_on_disk, instance)
    (request,) = result.dynamic_partitions_requests
    assert list(request.partition_keys) == ["P2_golden_s8", "R1_s7"]
    assert [(e.asset_key, e.partition) for e in result.asset_events] == [
        (key("source_run"), "P2_golden_s8"),
        (key("source_run"), "R1_s7"),
    ]
    assert not result.run_requests


def test_a_changed_shard_is_observed_once(
    src: Path, tmp_path: Path, point_at: PointAt, instance: dg.DagsterInstance
) -> None:
    point_at(src, tmp_path / "out")
    first = tick(runs_on_disk, instance)
    instance.add_dynamic_partitions("runs", ["P2_golden_s8", "R1_s7"])
    assert "none new or changed" in str(tick(runs_on_disk, instance, first.cursor).skip_message)
    shard = next((src / "R1_s7").glob("shard-*.tar"))
    shard.write_bytes(shard.read_bytes() + b"\0" * 512)
    second = tick(runs_on_disk, instance, first.cursor)
    assert [e.partition for e in second.asset_events] == ["R1_s7"]
    versions = [json.loads(c)["versions"]["R1_s7"] for c in (first.cursor, second.cursor)]
    assert versions[0] != versions[1]
    assert second.asset_events[0].tags["dagster/data_version"] == versions[1]
    assert "none new or changed" in str(tick(runs_on_disk, instance, second.cursor).skip_message)


def test_a_vanished_run_is_reported_and_stays_registered(
    src: Path, tmp_path: Path, point_at: PointAt, instance: dg.DagsterInstance
) -> None:
    point_at(src, tmp_path / "out")
    first = tick(runs_on_disk, instance)
    instance.add_dynamic_partitions("runs", ["P2_golden_s8", "R1_s7"])
    shutil.rmtree(src / "R1_s7")
    result = tick(runs_on_disk, instance, first.cursor)
    assert "vanished: R1_s7" in str(result.skip_message)
    assert not result.dynamic_partitions_requests
    assert json.loads(result.cursor)["vanished"] == ["R1_s7"]


def test_observing_by_hand_records_a_version_for_each_run(
    src: Path, tmp_path: Path, point_at: PointAt, instance: dg.DagsterInstance
) -> None:
    point_at(src, tmp_path / "out")
    instance.add_dynamic_partitions(str(RUNS.name), ["P2_golden_s8", "R1_s7", "gone"])
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[key("source_run")]
    )
    seen = [e.partition for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
    assert seen == ["P2_golden_s8", "R1_s7"]


# --- index_follows_disk


class Disk:
    """What the sensor asks about the disk, decided by the test."""

    def __init__(self) -> None:
        self.wanted: str | None = "index"
        self.state = "s1"


@pytest.fixture
def disk(source: Path, tmp_path: Path, point_at: PointAt, monkeypatch: pytest.MonkeyPatch) -> Disk:
    point_at(source, tmp_path / "out")
    now = Disk()
    monkeypatch.setattr(index_sensor, "what_is_stale", lambda settings: (now.wanted, now.state))
    return now


def job_run(instance: dg.DagsterInstance, job: str, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    return instance.create_run_for_job(defs.resolve_job_def(job), status=status, tags=tags)


def test_index_and_report_are_launched_when_the_disk_differs_and_nothing_else_happens(
    disk: Disk, instance: dg.DagsterInstance
) -> None:
    result = tick(index_follows_disk, instance)
    (request,) = result.run_requests
    assert request.job_name == "build_reports"
    assert json.loads(result.cursor)["run_key"] == request.run_key
    disk.wanted = None
    assert not tick(index_follows_disk, instance, result.cursor).run_requests


def test_the_verification_waits_while_runs_are_being_built(disk: Disk, instance: dg.DagsterInstance) -> None:
    job_run(instance, "build_runs", dg.DagsterRunStatus.STARTED)
    assert [r.job_name for r in tick(index_follows_disk, instance).run_requests] == ["build_index"]
    disk.wanted = "report"
    result = tick(index_follows_disk, instance)
    assert not result.run_requests and "nothing is being built" in str(result.skip_message)


@pytest.mark.parametrize(
    "status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
)
@pytest.mark.parametrize("job", ["build_index", "build_reports"])
def test_never_two_at_a_time(disk: Disk, instance: dg.DagsterInstance, job: str, status: dg.DagsterRunStatus) -> None:
    job_run(instance, job, status)
    assert not tick(index_follows_disk, instance).run_requests


def test_a_launch_from_the_ui_counts_as_well(disk: Disk, instance: dg.DagsterInstance) -> None:
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key("clips_index")})
    instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, asset_selection=frozenset({key("clips_index")})
    )
    assert not tick(index_follows_disk, instance).run_requests


def test_a_failed_launch_is_repeated_after_a_growing_pause(
    disk: Disk, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tick(index_follows_disk, instance)
    run_key = first.run_requests[0].run_key
    job_run(instance, "build_reports", dg.DagsterRunStatus.FAILURE, **{"dagster/run_key": run_key})
    waiting = tick(index_follows_disk, instance, first.cursor)
    assert not waiting.run_requests and "build_reports" in str(waiting.skip_message)
    now = time.time()
    monkeypatch.setattr(index_sensor.time, "time", lambda: now + 31)
    second = tick(index_follows_disk, instance, first.cursor)
    assert second.run_requests[0].run_key != run_key, "Dagster would drop a run key that it has seen"
    assert msgspec.json.decode(second.cursor, type=Launched).failures == 1
    assert [backoff(n) for n in (0, 1, 2, 3, 20)] == [0, 30, 60, 120, 1800]


def test_a_new_difference_after_a_success_is_launched_at_once(disk: Disk, instance: dg.DagsterInstance) -> None:
    first = tick(index_follows_disk, instance)
    run_key = first.run_requests[0].run_key
    job_run(instance, "build_reports", dg.DagsterRunStatus.SUCCESS, **{"dagster/run_key": run_key})
    assert not tick(index_follows_disk, instance, first.cursor).run_requests, "the same difference: no reason to hurry"
    disk.state = "s2"
    assert tick(index_follows_disk, instance, first.cursor).run_requests


def test_while_runs_are_built_the_index_is_launched_once_a_minute(
    disk: Disk, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_run(instance, "build_runs", dg.DagsterRunStatus.STARTED)
    first = tick(index_follows_disk, instance)
    run_key = first.run_requests[0].run_key
    job_run(instance, "build_index", dg.DagsterRunStatus.SUCCESS, **{"dagster/run_key": run_key})
    disk.state = "s2"
    assert not tick(index_follows_disk, instance, first.cursor).run_requests
    now = time.time()
    monkeypatch.setattr(index_sensor.time, "time", lambda: now + 61)
    assert tick(index_follows_disk, instance, first.cursor).run_requests


def test_an_empty_data_set_is_left_alone(
    source: Path, tmp_path: Path, point_at: PointAt, instance: dg.DagsterInstance
) -> None:
    point_at(source, tmp_path / "out")
    assert index_sensor.what_is_stale(settings_env.settings())[0] is None
    assert not tick(index_follows_disk, instance).run_requests


# --- jobs and schedule


def test_the_pool_is_rebuilt_daily_by_the_policy_that_holds(instance: dg.DagsterInstance) -> None:
    with dg.build_schedule_context(instance=instance) as context:
        (request,) = pool_daily.evaluate_tick(context).run_requests
    assert not request.run_config, "a policy in the schedule's configuration would override a person's choice"
    assert pool_daily.job_name == "pool"


def test_jobs_hold_what_their_names_say() -> None:
    def keys(name: str) -> set[dg.AssetKey]:
        return set(defs.resolve_job_def(name).asset_layer.executable_asset_keys)

    assert keys("build_runs") == set(RUN_KEYS)
    assert keys("build_index") == set(INDEX_KEYS)
    assert keys("build_reports") == {*INDEX_KEYS, REPORT_KEY}
    assert keys("pool") == {key("dmd_pool")}
    checks = defs.resolve_job_def("build_runs").asset_layer.asset_graph.asset_check_keys
    assert {k.name for k in checks} >= {"source_intact", "content_hash"}
    assert "spot_iou" not in {
        k.name for k in defs.resolve_job_def("build_index").asset_layer.asset_graph.asset_check_keys
    }
