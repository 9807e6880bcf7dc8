"""The assets, by group: what is read, what is made of one run, what is made of all runs."""

from gc25d_assets.assets.dataset import clips_index, dmd_pool, look_change_report, verify_report
from gc25d_assets.assets.runs import clip_plan, latents, prepare_conditions, run_index
from gc25d_assets.assets.source import source_run

ASSETS = (
    source_run,
    clip_plan,
    prepare_conditions,
    latents,
    run_index,
    clips_index,
    verify_report,
    look_change_report,
    dmd_pool,
)
