"""The `dagster.yaml` of a new Dagster home: the packaged one, with the run queue cut to this machine."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGED = Path(__file__).with_name("dagster.yaml")
SPARE_RUNS = 2
"""Runs beyond the seats: they plan, prepare conditions or write rows while the seats encode."""
_LINE = re.compile(r"^(\s*max_concurrent_runs:) \d+$", re.MULTILINE)


def dagster_yaml(seats: int) -> str:
    """Text of `dagster.yaml` for a machine where `seats` GPU steps may run at a time."""
    text, count = _LINE.subn(rf"\1 {seats + SPARE_RUNS}", PACKAGED.read_text())
    if count != 1:
        raise AssertionError(f"{PACKAGED} has {count} lines max_concurrent_runs, expected one")
    return text
