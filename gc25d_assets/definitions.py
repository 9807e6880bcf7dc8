"""The code location: `dagster dev -w workspace.yaml`, or `gc25d up`."""

from __future__ import annotations

import dagster as dg

from gc25d_assets.process import tie_to_parent

tie_to_parent()  # first of all: a step that loads this must not outlive its run worker

from gc25d_assets.assets import ASSETS  # noqa: E402
from gc25d_assets.automation import SCHEDULES, SENSORS  # noqa: E402
from gc25d_assets.checks import CHECKS  # noqa: E402
from gc25d_assets.executors import choose_executor  # noqa: E402
from gc25d_assets.jobs import JOBS  # noqa: E402

defs = dg.Definitions(
    assets=ASSETS,
    asset_checks=CHECKS,
    jobs=JOBS,
    sensors=SENSORS,
    schedules=SCHEDULES,
    executor=choose_executor(),
)
