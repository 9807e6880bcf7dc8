"""Asset checks. All of them ask `gc25d_core.verify`; none reads Dagster's events.

`check_run` is one step for all structural checks of one run and hangs on `run_index`. The deeper spot checks hang on
`clips_index`, which has no partitions, so that the UI's *Execute all* runs them.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from gc25d_assets.executors import GPU_POOL, GPU_TAGS, executor_name
from gc25d_assets.outcomes import NOTHING_TO_LOOK_AT, Outcome, outcomes_of, source_intact
from gc25d_assets.partitions import RUNS, key, partition_run, resolved, source_runs
from gc25d_assets.process import tie_to_parent
from gc25d_assets.seats import take_seat
from gc25d_core.errors import OutputError

if TYPE_CHECKING:
    from gc25d_core.rows import Row
    from gc25d_core.settings import Settings
    from gc25d_core.verify import CheckResult

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
    "spot_raw_ids": "Id images of the source hold only known ids, at full resolution.",
    "spot_ids": "`collapse_parts(cond)` equals the resampled id images on every pixel, extension included.",
    "spot_labels": "Body parts computed again from the source are those of `cond`.",
    "spot_oracle": "Body parts are those that rays cast by other code allow.",
    "spot_labels_meta": "Body parts computed from `meta` alone are those of `cond`.",
    "spot_row": "Row and `meta` say what the source's json and blocks say.",
    "spot_coverage": "Characters drawn from `meta` alone cover the pixels of `cond`.",
    "spot_iou": "Where nothing hides them, their outlines agree.",
}
SPOT_VAE = {
    "spot_pixels": "Frames decoded and resampled by other code are the same pictures.",
    "spot_reencode": "Frames encoded again give the stored latents, by the rule that their provenance allows.",
    "spot_cell0": "Cell 0 of the latent is the encode of frame 0 alone.",
    "spot_psnr": "The decoded latent looks like the source.",
    "spot_psnr_usual": "... and neither worse nor better than usual (a warning).",
}


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
    if not runs:
        raise dg.Failure(description="no registered run has rows yet: materialize run_index first", allow_retries=False)
    context.log.info(f"launched without a partition: checking the {len(runs)} of {len(registered)} runs that have rows")
    for run in runs:
        for name, outcome in run_outcomes(settings, run, names).items():
            context.op_execution_context.log_event(outcome.evaluation(RUN_INDEX, name, run))  # type: ignore[arg-type]


def run_outcomes(settings: "Settings", run: str, names: Sequence[str]) -> "dict[str, Outcome]":
    """The outcomes of these checks of one run."""
    from gc25d_core.verify import structural_run

    wanted = [n for n in names if n in STRUCTURAL]
    outcomes = outcomes_of(structural_run(settings, run), wanted) if wanted else {}
    if "source_intact" in names:
        outcomes["source_intact"] = source_intact(settings, run)
    return outcomes


@dg.multi_asset_check(name="check_spots", specs=_specs(CLIPS_INDEX, SPOT), can_subset=True)
def check_spots(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """Some clips looked at in depth against their source, on the CPU."""
    from gc25d_core.verify import spot_checks

    tie_to_parent()
    settings = resolved()
    rows = _spots(settings)
    results = spot_checks(settings, rows, workers=settings.workers) if rows else []
    yield from _spot_results(context, results, bool(rows))


@dg.multi_asset_check(
    name="check_spots_vae", specs=_specs(CLIPS_INDEX, SPOT_VAE), can_subset=True, pool=GPU_POOL, op_tags=GPU_TAGS
)
def check_spots_vae(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
    """Some clips encoded again, on the device of the settings."""
    from gc25d_core.verify import default_spot_vae, spot_vae

    tie_to_parent()
    settings = resolved()
    with take_seat(settings, executor=executor_name()):
        rows = _spots(settings)[: default_spot_vae(settings)]
        results = spot_vae(settings, rows) if rows else []
    yield from _spot_results(context, results, bool(rows))


def _spots(settings: "Settings") -> "list[Row]":
    """The clips that the deep checks look at."""
    from gc25d_core.index import read_index
    from gc25d_core.verify import spot_rows

    try:
        return spot_rows(read_index(settings)[0], settings.spot_clips)
    except OutputError as e:
        raise dg.Failure(description=str(e), allow_retries=False) from None


def _spot_results(
    context: dg.AssetCheckExecutionContext, results: "list[CheckResult]", any_clip: bool
) -> Iterator[dg.AssetCheckResult]:
    names = sorted(k.name for k in context.selected_asset_check_keys)
    outcomes = outcomes_of(results, names) if any_clip else dict.fromkeys(names, NOTHING_TO_LOOK_AT)
    yield from (outcome.result(CLIPS_INDEX, name) for name, outcome in outcomes.items())


@dg.asset_check(
    asset=key("verify_report"),
    name="verified",
    description="The report on disk speaks of the index on disk and has no failure. `verify_report` lists what failed.",
)
def verified() -> dg.AssetCheckResult:
    from gc25d_core.outputs.publish import read_json

    tie_to_parent()
    settings = resolved()
    report, runs = read_json(settings.paths.verify_report), read_json(settings.paths.runs_json)
    if report is None or runs is None:
        return dg.AssetCheckResult(passed=False, metadata={"result": "there is no report yet, or no index"})
    current = report["clips_hash"] == runs["clips_hash"]
    because = "; ".join(report["not_ready_because"])
    ready = (
        "READY is written" if settings.paths.ready.exists() else f"READY is not written: {because or 'removed since'}"
    )
    old = "" if current else "; it speaks of an older index, verify again"
    said = f"{report['failures']} failures, {report['warnings']} warnings over {report['clips']} clips of {report['runs']} runs"
    return dg.AssetCheckResult(passed=bool(report["passed"] and current), metadata={"result": f"{said}{old}; {ready}"})


CHECKS = (check_run, check_spots, check_spots_vae, verified)
