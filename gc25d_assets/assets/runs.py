"""What is made of one run: the plan of its clips, its conditions, its latents, its rows in the index."""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from gc25d_assets.executors import GPU_POOL, GPU_TAGS, executor_name
from gc25d_assets.metadata import plan_metadata, run_index_metadata, step_metadata
from gc25d_assets.partitions import RUNS, key, partition_run, resolved
from gc25d_assets.process import tie_to_parent
from gc25d_assets.seats import take_seat
from gc25d_core.errors import Fault
from gc25d_core.outputs.fingerprint import CODE_VERSION

if TYPE_CHECKING:
    from gc25d_core.prepare import Progress

OWNERS = ["team:data"]
PLAN_VERSION = "1"
ROWS_VERSION = "1"
LOG_EVERY_SECONDS = 20.0
RESUME = (
    "\n\nWork resumes clip by clip: what is finished is recognised by its fingerprint and skipped. To make everything "
    "again, materialize with `force: true`. Clips whose source is at fault are listed by the check `source_intact`; the "
    "others are made."
)


class BuildConfig(dg.Config):
    """How to treat what is there already."""

    force: bool = Field(default=False, description="Make every clip again, finished or not.")


@dg.asset(
    key=key("clip_plan"),
    deps=[key("source_run")],
    partitions_def=RUNS,
    group_name="runs",
    owners=OWNERS,
    kinds={"python"},
    code_version=PLAN_VERSION,
    description="The clips of one run: 81 frames each, whether the 28 frames after them exist (`has_ext`), looks, prompts, "
    "actions, split.\n\nReads json and blocks only. Written to `index/plan/<run>.jsonl`; derived, rebuilt at any time.",
)
def clip_plan(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    from gc25d_core.outputs.content import json_hash
    from gc25d_core.plan import plan_run
    from gc25d_core.source import run_digest

    tie_to_parent()
    settings = resolved(building=True)
    run = partition_run(context, settings)
    source_version = run_digest(settings.src, run)  # before the plan: a change while it is made shows as a change
    plan = plan_run(settings, run)
    log_faults(context, plan.faults)
    # Pictures are not in the plan, but what is made of them depends on them: a changed source makes it all stale.
    version = json_hash([source_version, str(plan.clips), str(plan.faults)])
    return dg.MaterializeResult(metadata=plan_metadata(plan), data_version=dg.DataVersion(version))


def _conditions_spec(name: str, what: str) -> dg.AssetSpec:
    return dg.AssetSpec(
        key(name),
        deps=[clip_plan],
        group_name="runs",
        owners=OWNERS,
        kinds={"numpy"},
        code_version=str(CODE_VERSION[name]),
        description=what + RESUME,
    )


@dg.multi_asset(
    name="prepare_conditions",
    partitions_def=RUNS,
    specs=[
        _conditions_spec("cond", "Class map with body parts of each of a clip's 81 frames, `cond/<clip>.npz`."),
        _conditions_spec(
            "cond_ext", "The same for the 28 frames after the clip, where `has_ext`, `cond_ext/<clip>.npz`."
        ),
        _conditions_spec("meta", "Capsules, camera, ground height and pixel counts of each frame, `meta/<clip>.npz`."),
    ],
)
def prepare_conditions(context: dg.AssetExecutionContext, config: BuildConfig) -> Iterator[dg.MaterializeResult[None]]:
    """One pass over json and id images makes all three."""
    from gc25d_assets.contact import contact_sheet
    from gc25d_core.prepare import prepare_conditions as prepare

    tie_to_parent()
    settings = resolved(building=True)
    run = partition_run(context, settings)
    report = prepare(settings, run, force=config.force, progress=progress_log(context))
    log_faults(context, report.faults)
    context.log.info(f"{run}: {report.sentence}")
    sheet = contact_sheet(settings, run)
    for name in ("cond", "cond_ext", "meta"):
        extra = {"picture": sheet} if name == "cond" and sheet is not None else {}
        yield dg.MaterializeResult(
            asset_key=key(name),
            metadata=step_metadata(report, name) | extra,
            data_version=dg.DataVersion(report.fingerprint or "empty"),
        )


@dg.asset(
    key=key("latents"),
    deps=[clip_plan],
    partitions_def=RUNS,
    group_name="runs",
    owners=OWNERS,
    kinds={"pytorch"},
    code_version=str(CODE_VERSION["latents"]),
    pool=GPU_POOL,
    op_tags=GPU_TAGS,
    description="VAE latents of each clip, bf16 [48, 21, H/16, W/16], with its actions, `latents/<clip>.pt`.\n\n"
    "Takes a seat on a GPU (pool `gpu`), which fixes its device; without a GPU the CPU is the one seat." + RESUME,
)
def latents(context: dg.AssetExecutionContext, config: BuildConfig) -> dg.MaterializeResult[None]:
    from gc25d_core.prepare import prepare_latents

    tie_to_parent()
    settings = resolved(building=True)
    run = partition_run(context, settings)
    with take_seat(settings, executor=executor_name()) as seat:
        context.log.info(f"{run}: {seat}, waited {seat.waited_seconds:.1f} s for it")
        report = prepare_latents(settings, run, force=config.force, progress=progress_log(context), turn=seat.turn)
    log_faults(context, report.faults)
    context.log.info(f"{run}: {report.sentence}")
    return dg.MaterializeResult(
        metadata=step_metadata(report) | {"seat": str(seat), "seconds_waiting_for_seat": round(seat.waited_seconds, 3)},
        data_version=dg.DataVersion(report.fingerprint or "empty"),
    )


@dg.asset(
    key=key("run_index"),
    deps=[clip_plan, key("cond"), key("cond_ext"), key("meta"), latents],
    partitions_def=RUNS,
    group_name="runs",
    owners=OWNERS,
    kinds={"json"},
    code_version=ROWS_VERSION,
    description="Rows of this run for the clip index, `index/rows/<run>.jsonl`: one for each clip whose files are all there "
    "and match.\n\nThe checks of the run hang here: files, shapes, values, hashes, fingerprints, and `source_intact`. If "
    "`missing` is not 0, materialize what is missing and then this.",
)
def run_index(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    from gc25d_core.rows import index_run

    tie_to_parent()
    settings = resolved(building=True)
    report = index_run(settings, partition_run(context, settings))
    if report.missing:
        context.log.warning(f"{report.run}: {len(report.missing)} planned clips are not finished")
    return dg.MaterializeResult(metadata=run_index_metadata(report), data_version=dg.DataVersion(report.rows_hash))


def log_faults(context: dg.AssetExecutionContext, faults: Iterable[Fault], most: int = 20) -> None:
    """Faults of the source as warnings of the step, which goes on."""
    faults = list(faults)
    for fault in faults[:most]:
        context.log.warning(str(fault))
    if len(faults) > most:
        context.log.warning(
            f"... and {len(faults) - most} more faults of the source; the check source_intact lists them"
        )


def progress_log(context: dg.AssetExecutionContext) -> "Callable[[Progress], None]":
    """Says now and then how far a step is. Seldom: each line is a row in the event log."""
    last = monotonic()

    def say(progress: "Progress") -> None:
        nonlocal last
        if monotonic() - last >= LOG_EVERY_SECONDS:
            last = monotonic()
            context.log.info(f"{progress.run}: {progress.step} {progress.done} of {progress.planned} clips")

    return say
