"""The pool is rebuilt every day, by the policy that holds."""

from __future__ import annotations

import dagster as dg

from gc25d_assets.jobs import pool

pool_daily = dg.ScheduleDefinition(
    name="dmd_pool_daily",
    job=pool,
    cron_schedule="0 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="The pool from the index of the day, by the persisted policy.",
)
