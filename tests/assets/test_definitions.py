"""The code location loads anywhere, and has the shape the documentation promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from gc25d_assets.definitions import defs
from gc25d_assets.executors import choose_executor, k8s_config, ray_config
from gc25d_assets.instance_yaml import PACKAGED, dagster_yaml
from gc25d_assets.jobs import RUN_KEYS
from gc25d_assets.partitions import RUNS, key
from gc25d_core.errors import SettingsError

ROOT = Path(__file__).parents[2]
PARENTS = {
    "source_run": set(),
    "clip_plan": {"source_run"},
    "cond": {"clip_plan"},
    "cond_ext": {"clip_plan"},
    "meta": {"clip_plan"},
    "latents": {"clip_plan"},
    "run_index": {"clip_plan", "cond", "cond_ext", "meta", "latents"},
    "clips_index": {"run_index"},
    "verify_report": {"clips_index"},
    "look_change_report": {"clips_index"},
    "dmd_pool": {"clips_index"},
}


def test_it_loads_in_a_bare_environment_without_heavy_imports() -> None:
    code = (
        "import sys; from gc25d_assets.definitions import defs; import dagster as dg; "
        "dg.Definitions.validate_loadable(defs); "
        "print([m for m in ('torch', 'diffsynth', 'cv2', 'ray', 'matplotlib', 'numba') if m in sys.modules])"
    )
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert "Warning" not in done.stderr


def test_the_graph_is_the_documented_one() -> None:
    graph = defs.resolve_asset_graph()
    assert {k.path[-1]: {p.path[-1] for p in graph.get(k).parent_keys} for k in graph.get_all_asset_keys()} == PARENTS
    assert all(k.path[0] == "gc25d" for k in graph.get_all_asset_keys())
    partitioned = {k.path[-1] for k in graph.get_all_asset_keys() if graph.get(k).partitions_def == RUNS}
    assert partitioned == {k.path[-1] for k in RUN_KEYS} | {"source_run"}


def test_one_partition_is_one_run() -> None:
    """A backfill policy of any kind would record checks without their partition."""
    graph = defs.resolve_asset_graph()
    assert [k for k in graph.get_all_asset_keys() if graph.get(k).backfill_policy is not None] == []


def test_every_made_asset_says_what_it_is_whose_it_is_and_which_code_made_it() -> None:
    for asset in defs.assets or ():
        for spec in asset.specs if isinstance(asset, dg.AssetsDefinition) else ():
            name = spec.key.path[-1]
            assert spec.description and spec.group_name, name
            if name != "source_run":
                assert spec.owners == ["team:data"] and spec.kinds, name


@pytest.mark.parametrize("name", ["gc25d__latents", "gc25d__verify_report", "check_spots_vae"])
def test_gpu_steps_are_in_the_pool_and_ask_ray_and_kubernetes_for_a_gpu(name: str) -> None:
    ops = {n.name: n.definition for n in defs.resolve_implicit_global_asset_job_def().nodes}
    op = ops[name]
    assert isinstance(op, dg.OpDefinition)
    assert op.pool == "gpu"
    assert '"num_gpus": 1' in op.tags["dagster-ray/config"]
    assert '"nvidia.com/gpu": "1"' in op.tags["dagster-k8s/config"]


def test_sensors_and_schedule_are_on_without_anyone_switching_them_on() -> None:
    repository = defs.get_repository_def()
    sensors = {s.name: s.default_status for s in repository.sensor_defs}
    schedules = {s.name: s.default_status for s in repository.schedule_defs}
    assert set(sensors.values()) == {dg.DefaultSensorStatus.RUNNING}
    assert set(sensors) == {"runs_on_disk", "index_follows_disk", "lost_runs"}
    assert schedules == {"dmd_pool_daily": dg.DefaultScheduleStatus.RUNNING}


@pytest.mark.parametrize("name", ["clip_plan", "prepare_conditions", "latents", "run_index", "clips_index", "dmd_pool"])
def test_without_a_source_an_asset_fails_and_says_what_to_set(name: str, instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("runs", ["R1"])
    keys = {"prepare_conditions": [key("cond"), key("cond_ext"), key("meta")]}.get(name, [key(name)])
    partition = "R1" if keys[0] in RUN_KEYS else None
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=keys, partition_key=partition, raise_on_error=False
    )
    failed = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    assert failed
    data = failed[0].step_failure_data
    assert data.user_failure_data is not None
    for word in ("GC25D_SRC", "GC25D_OUT", "gc25d up"):
        assert word in str(data.user_failure_data.description)


def test_the_executor_is_one_setting() -> None:
    assert choose_executor({}) is dg.multiprocess_executor
    assert choose_executor({"GC25D_EXECUTOR": "local"}) is dg.multiprocess_executor
    with pytest.raises(SettingsError, match="slurm"):
        choose_executor({"GC25D_EXECUTOR": "slurm"})


def test_steps_elsewhere_are_given_the_settings_and_nothing_else() -> None:
    env = {"GC25D_SRC": "/src", "GC25D_EXECUTOR": "ray", "GC25D_RAY_ADDRESS": "http://head:8265", "SECRET": "x"}
    ray = ray_config(env)["ray"]
    assert ray["address"] == "http://head:8265"
    assert ray["runtime_env"] == {"env_vars": {"GC25D_SRC": "/src", "GC25D_EXECUTOR": "ray"}}
    assert "num_gpus" not in ray, "it would override the steps' own tags"
    k8s = k8s_config({**env, "GC25D_EXECUTOR": "k8s", "GC25D_K8S_IMAGE": "gc25d:1"})
    assert k8s == {"env_vars": ["GC25D_SRC=/src", "GC25D_EXECUTOR=k8s"], "job_image": "gc25d:1"}


def test_the_instance_file_at_the_top_is_the_packaged_one_and_dagster_accepts_it(tmp_path: Path) -> None:
    assert (ROOT / "dagster.yaml").read_text() == PACKAGED.read_text()
    (tmp_path / "dagster.yaml").write_text(dagster_yaml(7))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        config = instance.get_concurrency_config()
        assert config.run_queue_config is not None
        assert config.run_queue_config.max_concurrent_runs == 14, "well above the seats"
        assert config.pool_config.op_granularity_run_buffer == 4
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] == 10
        assert not instance.telemetry_enabled
