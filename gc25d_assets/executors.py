"""Which executor runs the steps: `GC25D_EXECUTOR` = `local` (default), `ray` or `k8s`.

The tags that ask Ray and Kubernetes for a GPU stand on every GPU step at once, whichever executor is chosen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import dagster as dg

from gc25d_assets.settings_env import EXECUTOR, VARIABLES
from gc25d_assets.waiting import wait_patiently
from gc25d_core.errors import SettingsError

EXECUTORS = ("local", "ray", "k8s")
GPU_POOL = "gpu"
GPU_TAGS: dict[str, Any] = {
    "dagster-ray/config": {"num_cpus": 1, "num_gpus": 1},
    "dagster-k8s/config": {"container_config": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}},
}
RAY_ADDRESS = "GC25D_RAY_ADDRESS"
K8S_IMAGE = "GC25D_K8S_IMAGE"
K8S_NAMESPACE = "GC25D_K8S_NAMESPACE"


def executor_name(environ: Mapping[str, str] | None = None) -> str:
    """`local`, `ray` or `k8s`. Raises SettingsError for anything else."""
    name = (os.environ if environ is None else environ).get(EXECUTOR, "").strip() or "local"
    if name not in EXECUTORS:
        raise SettingsError([f"{EXECUTOR}={name!r}: expected one of {', '.join(EXECUTORS)}"])
    return name


def choose_executor(environ: Mapping[str, str] | None = None) -> dg.ExecutorDefinition:
    """The executor of this code location. Ray and Kubernetes need the extras `ray` and `k8s` of this package."""
    environ = os.environ if environ is None else environ
    name = executor_name(environ)
    if name == "ray":
        from dagster_ray import ray_executor

        return ray_executor.configured(ray_config(environ))
    if name == "k8s":
        from dagster_k8s import k8s_job_executor

        return k8s_job_executor.configured(k8s_config(environ))
    wait_patiently()
    return dg.multiprocess_executor


def ray_config(environ: Mapping[str, str]) -> dict[str, Any]:
    """Configuration of `ray_executor`. `num_gpus` is left to the steps' tags, which it would override."""
    return {
        "ray": {
            "address": environ.get(RAY_ADDRESS) or "http://127.0.0.1:8265",
            "runtime_env": {"env_vars": step_environment(environ)},
        }
    }


def k8s_config(environ: Mapping[str, str]) -> dict[str, Any]:
    """Configuration of `k8s_job_executor`."""
    config: dict[str, Any] = {"env_vars": [f"{k}={v}" for k, v in step_environment(environ).items()]}
    if image := environ.get(K8S_IMAGE):
        config["job_image"] = image
    if namespace := environ.get(K8S_NAMESPACE):
        config["job_namespace"] = namespace
    return config


def step_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What steps on other hosts must be given of this environment: the settings and the choice of executor."""
    names = (*(v.name for v in VARIABLES), EXECUTOR)
    return {n: environ[n] for n in names if environ.get(n)}
