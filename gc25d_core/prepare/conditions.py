"""Condition maps and metadata of a run: one pass over json and id images, on the CPU.

A clip's `cond`, `cond_ext` and `meta` come from the same decoded frames. What is finished is recognised by fingerprint and
left alone; of an unfinished clip only the stale files are written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from gc25d_core import clip_stats
from gc25d_core.capsules import stack_rows
from gc25d_core.errors import Fault, SourceError
from gc25d_core.frames import CLIP_FRAMES, full_frames
from gc25d_core.geometry import Geometry
from gc25d_core.images import decode_ids, resample_ids
from gc25d_core.labels import NoCapsules, label_parts
from gc25d_core.outputs.files import CondFile, MetaFile
from gc25d_core.outputs.fingerprint import CODE_VERSION, source_digest
from gc25d_core.outputs.npz import write_npz
from gc25d_core.plan import ClipPlan
from gc25d_core.prepare.decode import decode_member
from gc25d_core.prepare.report import ProgressCallback, StepReport
from gc25d_core.prepare.run import OpenRun, opened
from gc25d_core.prepare.versions import library_versions
from gc25d_core.settings import Settings
from gc25d_core.source import FrameRecord, RunSource
from gc25d_core.source.tarindex import member_name

STEP = "conditions"


@dataclass(frozen=True)
class ClipConditions:
    """Everything of one clip that json and ids give."""

    parts: np.ndarray
    """uint8 [F, H, W], F = 81 or 109."""
    meta: MetaFile
    """With empty provenance."""

    @property
    def cond(self) -> np.ndarray:
        """uint8 [81, H, W], its own memory: a view would carry the extension along."""
        return self.parts[:CLIP_FRAMES].copy()

    @property
    def cond_ext(self) -> np.ndarray:
        """uint8 [28, H, W]."""
        return self.parts[CLIP_FRAMES:].copy()


def make_conditions(source: RunSource, clip: ClipPlan, geometry: Geometry) -> ClipConditions:
    """Labels and metadata of one clip.

    Raises:
        SourceError: with the faults of all its frames.
    """
    frames = full_frames(clip.s, clip.has_ext)
    width, height = geometry.target
    parts = np.empty((len(frames), height, width), np.uint8)
    records: list[FrameRecord] = []
    faults: list[Fault] = []
    for i, frame in enumerate(frames):
        try:
            record = source.record(frame)
            records.append(record)
            ids = resample_ids(decode_member(source, frame, "ids", decode_ids), geometry)
            parts[i] = label_parts(ids, record.camera, record.capsules, geometry)
        except SourceError as e:
            faults += e.faults
        except NoCapsules as e:
            faults.append(
                source.fault(
                    "no_capsules",
                    f"the {e.owner} is visible but has no capsule, so its body parts are unknown",
                    frame=frame,
                    member=member_name(frame, "json"),
                    got=f"{e.pixels} {e.owner} pixels, 0 {e.owner} capsules",
                    expected="at least one capsule",
                    fix="write the character's capsules, or its pixels as the class behind it",
                )
            )
    if faults:
        raise SourceError(faults)
    return ClipConditions(parts, _meta(frames, records, parts, geometry))


def _meta(frames: range, records: list[FrameRecord], parts: np.ndarray, geometry: Geometry) -> MetaFile:
    class_px = clip_stats.class_px(parts)
    return MetaFile(
        frames=np.arange(frames.start, frames.stop, dtype=np.int32),
        capsules=stack_rows([r.capsules for r in records]),
        K=np.stack([geometry.intrinsics(*r.camera.intrinsics) for r in records]),
        world_to_camera=np.stack([r.camera.world_to_camera for r in records]).astype(np.float64),
        ground_z=clip_stats.ground_z([r.capsules for r in records]),
        player_px=clip_stats.player_px(class_px),
        boss_px=clip_stats.boss_px(class_px),
        class_px=class_px,
        static_change=clip_stats.static_change(parts),
        dead=np.array([r.dead for r in records], bool),
        bot_mode=np.array([r.bot_mode for r in records], str),
        geometry=geometry,
        provenance={},
    )


def prepare_conditions(settings: Settings, run: str, *, force: bool = False,
                       progress: ProgressCallback | None = None) -> StepReport:  # fmt: skip
    """Make `cond`, `cond_ext` and `meta` of every clip of a run that is not finished (with `force`: of every clip).

    Raises:
        SystemFault: the disk refused a write; what was published stays.
    """
    begun = time.perf_counter()
    with opened(settings, run, STEP, progress) as job:
        if isinstance(job, StepReport):
            return job
        spent = {"computing": 0.0, "writing": 0.0}
        with ThreadPoolExecutor(settings.workers, thread_name_prefix="conditions") as pool:
            for clip, todo, future in _ahead(job, pool, force, settings.workers):
                if future is None:
                    job.done(clip.clip, "skipped")
                    continue
                at = time.perf_counter()
                try:
                    made = future.result()
                except SourceError as e:
                    job.failed(clip.clip, list(e.faults))
                    continue
                finally:
                    spent["computing"] += time.perf_counter() - at
                at = time.perf_counter()
                for kind, wanted in todo.items():
                    _publish(job, clip, kind, wanted, made)
                spent["writing"] += time.perf_counter() - at
                job.done(clip.clip, "made")
        return job.report(seconds={"total": time.perf_counter() - begun, **spent})


def _ahead(
    job: OpenRun, pool: ThreadPoolExecutor, force: bool, ahead: int
) -> Iterator[tuple[ClipPlan, dict[str, str], Future[ClipConditions] | None]]:
    """Clips in order, each with its stale kinds and the work that makes it; at most `ahead` of them in memory."""
    waiting: list[tuple[ClipPlan, dict[str, str], Future[ClipConditions] | None]] = []
    try:
        for clip in job.plan.clips:
            kinds = ("cond", "meta", "cond_ext") if clip.has_ext else ("cond", "meta")
            if not clip.has_ext:
                job.removed += job.build.unlink(job.settings.paths.cond_ext(clip.clip))
            todo = job.stale(clip, kinds, force=force)
            waiting.append((clip, todo, pool.submit(make_conditions, job.source, clip, job.geometry) if todo else None))
            if len(waiting) > ahead:
                yield waiting.pop(0)
        yield from waiting
        waiting.clear()
    finally:
        pending = [f for _, _, f in waiting if f is not None]
        for future in pending:
            future.cancel()
        _settle(pending)


def _settle(futures: Iterable[Future[ClipConditions]]) -> None:
    wait([f for f in futures if not f.cancelled()])


def _publish(job: OpenRun, clip: ClipPlan, kind: str, wanted: str, made: ClipConditions) -> None:
    provenance = {
        "kind": kind, "fingerprint": wanted, "code_version": CODE_VERSION[kind], "clip": clip.clip, "run": clip.run,
        "source_digest": source_digest(kind, job.source, clip), "geometry": job.geometry.to_json(), "versions": library_versions(),
    }  # fmt: skip
    if kind == "meta":
        arrays = made.meta.arrays
    else:
        arrays = CondFile(made.cond if kind == "cond" else made.cond_ext, {}).arrays
    job.wrote(
        kind, job.build.publish(job.settings.paths.clip(kind, clip.clip), lambda f: write_npz(f, arrays, provenance))
    )
