"""Jobs: what a person, the command line, a sensor or a schedule launches as one thing."""

from __future__ import annotations

import dagster as dg

from gc25d_assets.checks import check_run
from gc25d_assets.partitions import RUNS, key

RUN_KEYS = tuple(key(n) for n in ("clip_plan", "cond", "cond_ext", "meta", "latents", "run_index"))
INDEX_KEYS = tuple(key(n) for n in ("clips_index", "look_change_report", "dmd_pool"))
REPORT_KEY = key("verify_report")

build_runs = dg.define_asset_job(
    "build_runs",
    selection=dg.AssetSelection.assets(*RUN_KEYS),
    partitions_def=RUNS,
    description="Everything of one run, its checks included. Backfill it over partitions to build many.",
)
build_index = dg.define_asset_job(
    "build_index",
    selection=dg.AssetSelection.assets(*INDEX_KEYS).without_checks(),
    description="The clip index from what is complete on disk, the look change report and the pool.",
)
build_reports = dg.define_asset_job(
    "build_reports",
    selection=dg.AssetSelection.assets(*INDEX_KEYS, REPORT_KEY).without_checks()
    | dg.AssetSelection.checks_for_assets(REPORT_KEY),
    description="The same, and the verification, which writes READY if nothing stands against it.",
)
checks = dg.define_asset_job(
    "checks",
    selection=dg.AssetSelection.checks(check_run),
    partitions_def=RUNS,
    description="The structural checks of one run. Without a partition: of every registered run.",
)
pool = dg.define_asset_job(
    "pool",
    selection=dg.AssetSelection.assets(key("dmd_pool")).without_checks(),
    description="The pool, by the policy that holds or the one given.",
)
JOBS = (build_runs, build_index, build_reports, checks, pool)
