"""Faults of the source, per run and step: `index/faults/<run>.<step>.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gc25d_core.errors import Fault
from gc25d_core.outputs.publish import read_jsonl

if TYPE_CHECKING:
    from gc25d_core.outputs.ready import Build
    from gc25d_core.settings import Settings

STEPS = ("plan", "conditions", "latents")


def write_faults(settings: Settings, run: str, step: str, faults: Iterable[Fault], build: Build) -> None:
    """Publish the faults a step found, where they changed; an empty file says that the step looked and found none."""
    data = b"".join(json.dumps(f.to_json(), ensure_ascii=False).encode() + b"\n" for f in faults)
    build.publish_changed(settings.paths.faults(run, step), data)


def read_faults(settings: Settings, run: str) -> list[Fault]:
    """Every known fault of a run, of all steps, in step order, without repetition."""
    found: dict[Fault, None] = {}
    for step in STEPS:
        for row in read_jsonl(settings.paths.faults(run, step)):
            found.setdefault(Fault.from_json(row))
    return list(found)
