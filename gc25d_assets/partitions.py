"""One run of the source is one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from gc25d_core.errors import SettingsError

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

RUNS = dg.DynamicPartitionsDefinition(name="runs")
PREFIX = "gc25d"


def key(name: str) -> dg.AssetKey:
    """Asset key of `name`: every key of this project carries one prefix."""
    return dg.AssetKey([PREFIX, name])


def resolved(*, building: bool = False) -> Settings:
    """The settings of this process, or a Dagster failure that says what to set.

    Args:
        building: the caller writes outputs; settings that differ from those of an existing data set are refused.
    """
    from gc25d_assets.settings_env import settings

    try:
        found = settings()
        if building:
            found.check_prep_args()
        return found
    except SettingsError as e:
        raise dg.Failure(description=str(e), allow_retries=False) from None


def source_runs(settings: Settings) -> list[str]:
    """Names of the runs on disk, sorted; a source that cannot be read is a Dagster failure."""
    from gc25d_core.source import list_runs

    try:
        return list_runs(settings.src)
    except SettingsError as e:
        raise dg.Failure(description=str(e), allow_retries=False) from None


def require_run(settings: Settings, run: str) -> str:
    """`run`, if the source has it, else a Dagster failure that names the known ones."""
    known = source_runs(settings)
    if run in known:
        return run
    some = ", ".join(known[:8]) + (f", ... ({len(known)} in all)" if len(known) > 8 else "")
    raise dg.Failure(
        description=f"unknown run {run!r}: {settings.src} has no folder of that name with a run.json. "
        f"Known runs: {some or 'none'}. If the partition was added by hand, delete it; if the run was moved away, "
        f"bring it back or delete the partition.",
        allow_retries=False,
    )


def partition_run(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, settings: Settings) -> str:
    """The run this step is about."""
    if not context.has_partition_key:
        raise dg.Failure(
            description="this works on one run: launch it for a partition (the name of a run)", allow_retries=False
        )
    return require_run(settings, context.partition_key)
