"""Publish the faults that a step found: `index/faults/<run>.<step>.jsonl`. `gc25d_core.faults` reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gc25d_core.errors import Fault

if TYPE_CHECKING:
    from gc25d_core.outputs.ready import Build
    from gc25d_core.settings import Settings


def write_faults(settings: Settings, run: str, step: str, faults: Iterable[Fault], build: Build) -> None:
    """Publish the faults a step found, where they changed; an empty file says that the step looked and found none."""
    data = b"".join(json.dumps(f.to_json(), ensure_ascii=False).encode() + b"\n" for f in faults)
    build.publish_changed(settings.paths.faults(run, step), data)
