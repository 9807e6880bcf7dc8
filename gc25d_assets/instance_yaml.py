"""The `dagster.yaml` of a new Dagster home: the packaged one, with the run queue cut to this machine."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGED = Path(__file__).with_name("dagster.yaml")
LEAST_SPARE_RUNS = 2
_LINE = re.compile(r"^(\s*max_concurrent_runs:) \d+$", re.MULTILINE)


def concurrent_runs(seats: int) -> int:
    """Runs in progress: beside those on a seat, as many again that plan, prepare conditions, write rows or check."""
    return seats + max(LEAST_SPARE_RUNS, seats)


def dagster_yaml(seats: int) -> str:
    """Text of `dagster.yaml` for a machine where `seats` GPU steps may run at a time."""
    text, count = _LINE.subn(rf"\1 {concurrent_runs(seats)}", PACKAGED.read_text())
    if count != 1:
        raise AssertionError(f"{PACKAGED} has {count} lines max_concurrent_runs, expected one")
    return text
