"""What both steps do around a clip: open, plan, find what is finished, count, report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gc25d_core.errors import Fault, SourceError
from gc25d_core.geometry import Geometry
from gc25d_core.outputs.content import json_hash
from gc25d_core.outputs.fingerprint import fingerprint, is_finished
from gc25d_core.outputs.ready import Build, building
from gc25d_core.plan import ClipPlan, RunPlan, plan_source, write_plan
from gc25d_core.prepare.faults import write_faults
from gc25d_core.prepare.report import Progress, ProgressCallback, StepReport
from gc25d_core.settings import Settings
from gc25d_core.source import RunSource, open_run


@dataclass
class OpenRun:
    """A planned run, opened for one step."""

    settings: Settings
    step: str
    source: RunSource
    plan: RunPlan
    geometry: Geometry
    build: Build
    progress: ProgressCallback | None
    made: int = 0
    skipped: int = 0
    bytes_written: int = 0
    removed: int = 0
    made_by_kind: dict[str, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """Faults that this step found, by clip."""

    def stale(self, clip: ClipPlan, kinds: tuple[str, ...], *, force: bool) -> dict[str, str]:
        """Fingerprints of those outputs of a clip that are not finished (with `force`: of all)."""
        todo = {}
        for kind in kinds:
            wanted = fingerprint(kind, self.settings, self.source, clip)
            self.fingerprints[f"{kind}/{clip.clip}"] = wanted
            if force or not is_finished(self.settings.paths.clip(kind, clip.clip), wanted):
                todo[kind] = wanted
        return todo

    def wrote(self, kind: str, size: int) -> None:
        """Count a published file."""
        self.made_by_kind[kind] = self.made_by_kind.get(kind, 0) + 1
        self.bytes_written += size

    def done(self, clip: str, outcome: str) -> None:
        """Count a clip as `made`, `skipped` or `failed` and say so."""
        self.made += outcome == "made"
        self.skipped += outcome == "skipped"
        if self.progress is not None:
            done = self.made + self.skipped + len(self.faults)
            self.progress(Progress(self.step, self.plan.run, clip, done, len(self.plan.clips), outcome))

    def failed(self, clip: str, faults: list[Fault]) -> None:
        """Note the faults of a clip that cannot be made; the others go on."""
        self.faults[clip] = [Fault.from_json({**f.to_json(), "clip": clip}) for f in faults]
        self.done(clip, "failed")

    def report(self, **more: Any) -> StepReport:
        """Publish this step's faults and give the account."""
        own = tuple(f for clip in self.plan.clips for f in self.faults.get(clip.clip, ()))
        write_faults(self.settings, self.plan.run, self.step, own, self.build)
        self.source.save_cache()
        return StepReport(
            self.plan.run, self.step, self.plan.planned, self.made, self.skipped,
            len(self.plan.failed) + len(self.faults), self.plan.faults + own, bytes_written=self.bytes_written,
            fingerprint=json_hash(self.fingerprints), removed=self.removed, made_by_kind=self.made_by_kind, **more,
        )  # fmt: skip


@contextlib.contextmanager
def opened(
    settings: Settings, run: str, step: str, progress: ProgressCallback | None
) -> Iterator[OpenRun | StepReport]:
    """Open and plan a run for a step, under the builder's lock.

    Yields a StepReport instead where nothing of the run can be planned: run.json unusable, or no target fits.
    """
    try:
        source = open_run(settings.src, run, cache=settings.paths.cache)
    except SourceError as e:
        plan = RunPlan(run, None, (), e.faults, 0)
        write_plan(settings, plan)
        yield StepReport(run, step, 0, 0, 0, 0, e.faults)
        return
    try:
        plan = plan_source(source, settings.size)
        write_plan(settings, plan)
        if not plan.clips:
            source.save_cache()
            with building(settings) as build:
                write_faults(settings, run, step, (), build)
            yield StepReport(run, step, plan.planned, 0, 0, len(plan.failed), plan.faults)
            return
        geometry = Geometry.fit(source.info.image_size, settings.size)
        with building(settings) as build:
            yield OpenRun(settings, step, source, plan, geometry, build, progress)
    finally:
        source.close()
