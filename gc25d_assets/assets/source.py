"""What is read: the recordings, observed, never made."""

import warnings

import dagster as dg

from gc25d_assets.partitions import RUNS, key, resolved, source_runs
from gc25d_core.errors import SourceError

DESCRIPTION = """\
One recording session: a folder of tar shards with `run.json` and `blocks.jsonl`.

Its data version is a digest of `run.json`, `blocks.jsonl` and the shards' names, sizes and times. A change marks what was
made from the run as stale; nothing is rebuilt by itself. To look again, press *Observe* (the sensor `runs_on_disk` does it
too)."""


def observe(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
    """Data versions of the run of this partition, or of every registered run on disk."""
    from gc25d_core.source import run_digest

    settings = resolved()
    asked = {context.partition_key} if context.has_partition_key else None
    registered = set(context.instance.get_dynamic_partitions(str(RUNS.name)))
    versions: dict[str, str] = {}
    for run in source_runs(settings):
        if run in registered and (asked is None or run in asked):
            try:
                versions[run] = run_digest(settings.src, run)
            except SourceError as e:
                context.log.warning(str(e))
    for run in sorted((asked or registered) - set(versions)):
        context.log.warning(f"run {run} is registered, but {settings.src} does not have it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.DataVersionsByPartition(versions)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.BetaWarning)
    source_run = dg.observable_source_asset(
        key=key("source_run"),
        partitions_def=RUNS,
        group_name="source",
        description=DESCRIPTION,
        metadata={"format": "tar shards, run.json, blocks.jsonl"},
    )(observe)
