"""Asset checks. All of them ask `gc25d_core.verify`; none reads Dagster's events.

`check_run` is one step for all structural checks of one run and hangs on `run_index`. The deeper spot checks hang on
`clips_index`, which has no partitions, so that the UI's *Execute all* runs them.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from gc25d_assets.executors import GPU_POOL, GPU_TAGS, executor_name
from gc25d_assets.outcomes import Outcome, outcomes_of, source_intact
from gc25d_assets.partitions import RUNS, key, partition_run, resolved, source_runs
from gc25d_assets.process import tie_to_parent
from gc25d_assets.seats import take_seat

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

RUN_INDEX = key("run_index")
CLIPS_INDEX = key("clips_index")
STRUCTURAL = {
    "rows": "One whole row for each clip of the plan, equal to it, and none for any other.",
    "plan": "Prompts, actions, looks, episode and extension are those of the source.",
    "files": "Every file is there, whole, of the size its row says.",
    "shapes": "Members, types and shapes are those of the format.",
    "values": "Values are in range, and frames, actions and pixel counts agree across files.",
    "content_hash": "The content of each file is the one its row names.",
    "fingerprint": "Each file was made from these source members by these settings and this code.",
    "row_statistics": "The statistics of each row follow from `meta`.",
    "temporaries": "No temporary file of an interrupted write is left (a warning: they may be deleted).",
    "foreign_files": "No file of this run that belongs to nothing (a warning).",
}
SOURCE_INTACT = {
    "source_intact": "No clip failed on its source. If it fails: mend the member named and build the run again, or accept "
    "the fault with `gc25d accept RUN CLIP --reason ...`. `READY` waits for either.",
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


@dg.multi_asset_check(name="check_run", specs=_specs(RUN_INDEX, STRUCTURAL | SOURCE_INTACT, RUNS), can_subset=True)
def check_run(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """All structural checks of one run; launched without a partition (*Execute all*), those of every registered run."""
    tie_to_parent()
    settings = resolved()
    names = sorted(k.name for k in context.selected_asset_check_keys)
    if context.has_partition_key:
        outcomes = run_outcomes(settings, partition_run(context, settings), names)
        yield from (outcome.result(RUN_INDEX, name) for name, outcome in outcomes.items())
        return
    # A result without partition would be refused, so there is none: evaluations are recorded for each partition.
    on_disk = set(source_runs(settings))
    registered = context.instance.get_dynamic_partitions(str(RUNS.name))
    runs = [run for run in registered if run in on_disk and settings.paths.rows(run).is_file()]
    context.log.info(f"launched without a partition: checking the {len(runs)} of {len(registered)} runs that have rows")
    for run in runs:
        for name, outcome in run_outcomes(settings, run, names).items():
            context.op_execution_context.log_event(outcome.evaluation(RUN_INDEX, name, run))  # type: ignore[arg-type]


def run_outcomes(settings: "Settings", run: str, names: Sequence[str]) -> "dict[str, Outcome]":
    """The outcomes of these checks of one run."""
    from gc25d_core.verify.structural import structural_run

    wanted = [n for n in names if n in STRUCTURAL]
    outcomes = outcomes_of(structural_run(settings, run), wanted) if wanted else {}
    if "source_intact" in names:
        outcomes["source_intact"] = source_intact(settings, run)
    return outcomes


@dg.multi_asset_check(name="check_spots", specs=_specs(CLIPS_INDEX, SPOT), can_subset=True)
def check_spots(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """Clips looked at in depth against their source, on the CPU."""
    from gc25d_core.verify import spot_checks

    tie_to_parent()
    names = sorted(k.name for k in context.selected_asset_check_keys)
    outcomes = outcomes_of(spot_checks(resolved(), names=names), names)
    yield from (outcome.result(CLIPS_INDEX, name) for name, outcome in outcomes.items())


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
        outcomes = outcomes_of(spot_checks(settings, names=names), names)
    yield from (outcome.result(CLIPS_INDEX, name) for name, outcome in outcomes.items())


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
