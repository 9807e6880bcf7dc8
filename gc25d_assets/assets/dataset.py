"""What is made of all runs: the clip index, the verification, the numbers behind a decision, the pool."""

import enum

import dagster as dg
from pydantic import Field

from gc25d_assets.assets.runs import OWNERS, run_index
from gc25d_assets.executors import GPU_POOL, GPU_TAGS, executor_name
from gc25d_assets.metadata import index_metadata, look_change_metadata, pool_metadata, verify_metadata
from gc25d_assets.partitions import key, resolved
from gc25d_assets.process import tie_to_parent
from gc25d_assets.seats import take_seat

INDEX_VERSION = "1"


class Policy(enum.Enum):
    """Which clips with an extension go into the pool."""

    same_look = "same_look"
    all = "all"


class PoolConfig(dg.Config):
    """The decision on clips whose look changes at frame 81."""

    policy: Policy | None = Field(
        default=None,
        description="`same_look` leaves out clips whose look changes at frame 81 (recommended), `all` keeps them. A "
        "choice is remembered for every later launch; leave it out to keep the one that holds.",
    )


class VerifyConfig(dg.Config):
    """How much of the data set the verification looks at in depth."""

    spot_clips: int | None = Field(default=None, description="Clips of the deep checks; the setting if left out.")
    spot_vae_clips: int | None = Field(
        default=None, description="Of those, clips that are encoded again; 4 on a GPU and 1 on a CPU if left out."
    )
    workers: int | None = Field(
        default=None, description="Processes of the structural checks; the setting if left out."
    )


@dg.asset(
    key=key("clips_index"),
    deps=[run_index],
    group_name="dataset",
    owners=OWNERS,
    kinds={"json", "parquet"},
    code_version=INDEX_VERSION,
    description="One row a clip, in clip order, over every run that is complete on disk: `index/clips.jsonl` and "
    "`index/clips.parquet`.\n\nIt follows the disk: the sensor `index_follows_disk` launches it when rows have changed. The "
    "metadata say how many of how many runs are in it, and why the others are not. The deep checks hang here; *Execute "
    "all* in the Checks tab runs them.",
)
def clips_index(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    from gc25d_core.index import build_index

    tie_to_parent()
    report = build_index(resolved(building=True))
    context.log.info(report.summary())
    for run in report.vanished:
        context.log.warning(
            f"run {run} has vanished from the source; its rows stay in the index until its files are removed"
        )
    return dg.MaterializeResult(metadata=index_metadata(report), data_version=dg.DataVersion(report.clips_hash))


@dg.asset(
    key=key("verify_report"),
    deps=[clips_index],
    group_name="dataset",
    owners=OWNERS,
    kinds={"json"},
    pool=GPU_POOL,
    op_tags=GPU_TAGS,
    description="Every clip looked at, some in depth: `verify_report.json`.\n\nWithout a failure, with every run complete and "
    "every fault of the source mended or accepted, it writes `READY`. The check `verified` says whether it passed.",
)
def verify_report(context: dg.AssetExecutionContext, config: VerifyConfig) -> dg.MaterializeResult[None]:
    from gc25d_core.verify import verify

    tie_to_parent()
    settings = resolved()
    with take_seat(settings, executor=executor_name()) as seat:
        report = verify(settings, spot=config.spot_clips, spot_vae_clips=config.spot_vae_clips, workers=config.workers)
    for failure in report.failures:
        context.log.error(f"{failure.name}: {failure.message}")
    return dg.MaterializeResult(metadata=verify_metadata(report) | {"seat": str(seat)})


@dg.asset(
    key=key("look_change_report"),
    deps=[clips_index],
    group_name="dataset",
    owners=OWNERS,
    kinds={"json"},
    description="What the picture does between a clip's last frame and its extension: `look_change.json`, with a plot.\n\n"
    "Read it before choosing the pool's policy: if the class histograms jump at 80->81 only where the look changes, "
    "`same_look` keeps those jumps out of training.",
)
def look_change_report(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    from gc25d_core.look_change import look_change

    tie_to_parent()
    report = look_change(resolved(building=True))
    return dg.MaterializeResult(metadata=look_change_metadata(report))


@dg.asset(
    key=key("dmd_pool"),
    deps=[clips_index],
    group_name="dataset",
    owners=OWNERS,
    kinds={"json"},
    description="The clips that the distillation stage trains on, `dmd_pool.jsonl`: with extension, not dropped, of the "
    "training split, and by policy of one look.\n\nTo decide, materialize with `policy: same_look` or `policy: all`; the "
    "choice is kept in `pool_policy.json` and holds for the daily schedule too. Nothing is encoded anew.",
)
def dmd_pool(context: dg.AssetExecutionContext, config: PoolConfig) -> dg.MaterializeResult[None]:
    from gc25d_core.pool import build_pool

    tie_to_parent()
    policy = config.policy.value if config.policy is not None else None
    report = build_pool(resolved(building=True), policy, f"Dagster run {context.run.run_id}" if policy else None)
    return dg.MaterializeResult(metadata=pool_metadata(report))
