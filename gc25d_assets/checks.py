"""Asset checks. All of them ask `gc25d_core.verify`; none reads Dagster's events.

`check_run` is one step for all structural checks of one run and hangs on `run_index`. The deeper spot checks hang on
`clips_index`, which has no partitions, so that the UI's *Execute all* runs them.
"""

import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from gc25d_assets.executors import GPU_POOL, GPU_TAGS, executor_name
from gc25d_assets.metadata import table
from gc25d_assets.partitions import RUNS, key, partition_run, resolved, source_runs
from gc25d_assets.process import tie_to_parent
from gc25d_assets.seats import take_seat

if TYPE_CHECKING:
    from gc25d_core.verify import CheckResult

    from gc25d_core.settings import Settings

RUN_INDEX = key("run_index")
CLIPS_INDEX = key("clips_index")
STRUCTURAL = {
    "files": "Every planned clip has a row and each of its files, and no file is there that does not belong.",
    "shapes": "Arrays have the shapes and types of the format.",
    "values": "Values are in range: ids, cameras, capsules, latents.",
    "hashes": "The content of each file is the one its row names.",
    "fingerprints": "Each file was made from this source by these settings and this code.",
    "source_intact": "No clip failed on its source. If it fails: mend the member named, or accept the fault with "
    "`gc25d accept RUN CLIP --reason ...`; `READY` waits for either.",
}
SPOT = {
    "spot_ids": "`collapse_parts(cond)` equals the resampled id images on every pixel, extension included.",
    "spot_labels": "Body parts computed again from the source are those of `cond`.",
    "spot_iou": "Characters drawn from `meta` alone cover the pixels of `cond`.",
}
SPOT_VAE = {"spot_vae": "Frames encoded again give the stored latents, and decode to a picture like the source."}


def _specs(asset: dg.AssetKey, names: dict[str, str], partitions_def: Any = None) -> list[dg.AssetCheckSpec]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(name, asset=asset, description=text, partitions_def=partitions_def)
            for name, text in names.items()
        ]


def result_metadata(result: "CheckResult") -> dict[str, Any]:
    """What one check found, as metadata: the sentence first, the worst places as a table."""
    meta: dict[str, Any] = {"result": result.message, "clips_checked": result.clips_checked}
    meta |= {f"figure_{name}": _plain(value) for name, value in result.figure.items() if value is not None}
    if result.threshold is not None:
        meta["threshold"] = str(result.threshold)
    if not result.applicable:
        meta["not_applicable"] = True
    if result.worst:
        columns = list(dict.fromkeys(name for row in result.worst for name in row))
        meta["worst"] = table({name: row.get(name) for name in columns} for row in result.worst[:50])
    return meta


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _severity(result: "CheckResult") -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if result.severity == "warn" else dg.AssetCheckSeverity.ERROR


def _passed(result: "CheckResult") -> bool:
    return bool(result.passed or not result.applicable)


def _results(results: "Iterable[CheckResult]", wanted: Iterable[str]) -> "dict[str, CheckResult]":
    by_name = {r.name: r for r in results}
    if lost := sorted(set(wanted) - set(by_name)):
        raise dg.Failure(description=f"the verification did not report on {', '.join(lost)}", allow_retries=False)
    return by_name


@dg.multi_asset_check(name="check_run", specs=_specs(RUN_INDEX, STRUCTURAL, RUNS), can_subset=True)
def check_run(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """All structural checks of one run; launched without a partition (*Execute all*), those of every registered run."""
    from gc25d_core.verify import structural_run

    tie_to_parent()
    settings = resolved()
    names = sorted(k.name for k in context.selected_asset_check_keys)
    if not context.has_partition_key:
        _check_every_run(context, settings, names)
        return
    results = _results(structural_run(settings, partition_run(context, settings)), names)
    yield from (_check_result(RUN_INDEX, name, results[name]) for name in names)


def _check_every_run(context: dg.AssetCheckExecutionContext, settings: "Settings", names: list[str]) -> None:
    """Records an evaluation for each partition; a result for "no partition" would be refused, so there is none."""
    from gc25d_core.verify import structural_run

    on_disk = set(source_runs(settings))
    registered = context.instance.get_dynamic_partitions(str(RUNS.name))
    runs = [run for run in registered if run in on_disk and settings.paths.rows(run).is_file()]
    context.log.info(
        f"launched without a partition: checking all {len(runs)} runs that have rows, of {len(registered)}"
    )
    for run in runs:
        results = _results(structural_run(settings, run), names)
        for name in names:
            result = results[name]
            context.op_execution_context.log_event(
                dg.AssetCheckEvaluation(
                    asset_key=RUN_INDEX,
                    check_name=name,
                    passed=_passed(result),
                    severity=_severity(result),
                    metadata=result_metadata(result),
                    partition=run,
                )
            )


def _check_result(asset: dg.AssetKey, name: str, result: "CheckResult") -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=name,
        passed=_passed(result),
        severity=_severity(result),
        metadata=result_metadata(result),
    )


@dg.multi_asset_check(name="check_spots", specs=_specs(CLIPS_INDEX, SPOT), can_subset=True)
def check_spots(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """Clips looked at in depth against their source, on the CPU."""
    from gc25d_core.verify import spot_checks

    tie_to_parent()
    names = sorted(k.name for k in context.selected_asset_check_keys)
    results = _results(spot_checks(resolved(), names=names), names)
    yield from (_check_result(CLIPS_INDEX, name, results[name]) for name in names)


@dg.multi_asset_check(
    name="check_spots_vae", specs=_specs(CLIPS_INDEX, SPOT_VAE), can_subset=True, pool=GPU_POOL, op_tags=GPU_TAGS
)
def check_spots_vae(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """Clips encoded again, on the device of the settings."""
    from gc25d_core.verify import spot_checks

    tie_to_parent()
    settings = resolved()
    names = sorted(k.name for k in context.selected_asset_check_keys)
    with take_seat(settings, executor=executor_name()):
        results = _results(spot_checks(settings, names=names), names)
    yield from (_check_result(CLIPS_INDEX, name, results[name]) for name in names)


@dg.asset_check(
    asset=key("verify_report"),
    name="verified",
    description="The report on disk has no failure and speaks of the index on disk.",
)
def verified() -> dg.AssetCheckResult:
    from gc25d_core.verify import read_report

    settings = resolved()
    report = read_report(settings)
    return dg.AssetCheckResult(passed=report.passed, metadata={"result": report.summary()})


CHECKS = (check_run, check_spots, check_spots_vae, verified)
