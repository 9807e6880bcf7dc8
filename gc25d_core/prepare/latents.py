"""Latents of a run: frames are decoded ahead, encoded one clip after another, and published behind.

Three things overlap: decoding of the clips to come (threads; the number in memory is bounded), encoding (this thread), and
writing of the clip before. torch is imported only when there is a clip to encode.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from gc25d_core.errors import Fault, SourceError, SystemFault
from gc25d_core.frames import clip_frames
from gc25d_core.geometry import Geometry
from gc25d_core.images import decode_rgb, resample_rgb
from gc25d_core.outputs.fingerprint import CODE_VERSION, source_digest
from gc25d_core.plan import ClipPlan
from gc25d_core.prepare.decode import decode_member
from gc25d_core.prepare.report import ProgressCallback, StepReport
from gc25d_core.prepare.run import OpenRun, opened
from gc25d_core.prepare.versions import library_versions
from gc25d_core.settings import Settings
from gc25d_core.source import RunSource

if TYPE_CHECKING:
    from gc25d_core.vae.encode import EncodedClip, Encoder

STEP = "latents"
FRAMES_AHEAD_BYTES = 512 << 20
"""Decoded clips that wait for the encoder may hold this much; one clip of 832x480 is 97 MB."""


def clip_rgb(source: RunSource, clip: ClipPlan, geometry: Geometry) -> np.ndarray:
    """The 81 frames of a clip at target size, uint8 [81, H, W, 3], RGB.

    Raises:
        SourceError: with the faults of all its frames.
    """
    width, height = geometry.target
    frames = clip_frames(clip.s)
    video = np.empty((len(frames), height, width, 3), np.uint8)
    faults: list[Fault] = []
    for i, frame in enumerate(frames):
        try:
            video[i] = resample_rgb(decode_member(source, frame, "jpg", decode_rgb), geometry)
        except SourceError as e:
            faults += e.faults
    if faults:
        raise SourceError(faults)
    return video


Turn = Callable[[], AbstractContextManager[None]]
"""Gives the device to one step at a time; see `prepare_latents`."""


def prepare_latents(settings: Settings, run: str, *, force: bool = False, progress: ProgressCallback | None = None,
                    turn: Turn = nullcontext) -> StepReport:  # fmt: skip
    """Make `latents` of every clip of a run that is not finished (with `force`: of every clip).

    The CUDA device is the one that this process sees first; whoever calls has chosen it. Where steps share a device,
    `turn()` is held while this one encodes; loading, warming up and decoding ahead come before it.

    Raises:
        SystemFault: no GPU, a broken checkpoint, a disk that refuses a write; what was published stays.
    """
    begun = time.perf_counter()
    with opened(settings, run, STEP, progress) as job:
        if isinstance(job, StepReport):
            return job
        stale = {c.clip: job.stale(c, ("latents",), force=force) for c in job.plan.clips}
        for clip in job.plan.clips:
            if not stale[clip.clip]:
                job.done(clip.clip, "skipped")
        todo = [c for c in job.plan.clips if stale[c.clip]]
        if not todo:
            return job.report(seconds={"total": time.perf_counter() - begun})
        return _encode_all(job, todo, begun, turn)


def _encode_all(job: OpenRun, todo: list[ClipPlan], begun: float, turn: Turn) -> StepReport:
    settings = job.settings
    width, height = settings.size
    ahead = max(1, min(settings.workers + 1, FRAMES_AHEAD_BYTES // (81 * height * width * 3)))
    spent = {"starting": 0.0, "waiting_for_turn": 0.0, "waiting": 0.0, "encoding": 0.0, "writing": 0.0}
    first: float | None = None
    with ThreadPoolExecutor(settings.workers, "decode") as decoders, ThreadPoolExecutor(1, "publish") as writer:
        feed = _decoded(job, todo, decoders, ahead, spent)  # starts decoding while the VAE loads
        behind: deque[Future[int]] = deque()
        try:
            encoder = _open_encoder(settings)
            clips = iter(feed)
            head = list(islice(clips, 1))
            for _, video in head:
                encoder.warm_up(video)
            spent["starting"], spent["waiting"] = time.perf_counter() - begun, 0.0
            with turn():
                spent["waiting_for_turn"] = time.perf_counter() - begun - spent["starting"]
                for clip, encoded in encoder.encode_stream(chain(head, clips)):
                    first = first or time.perf_counter()
                    spent["encoding"] += encoded.seconds
                    while len(behind) > 1:
                        _written(job, behind, spent)
                    behind.append(writer.submit(_publish, job, clip, encoded, encoder))
                    job.done(clip.clip, "made")
            while behind:
                _written(job, behind, spent)
        finally:
            feed.close()
            for future in behind:
                future.exception()
    counts = encoder.counts
    used = sorted({p for p, n in (("exact", counts.exact), ("fast", counts.fast)) if n})
    return job.report(
        seconds={"total": time.perf_counter() - begun, "to_first_clip": (first or begun) - begun, **spent},
        precision_used="+".join(used) or None, fallback_exact=counts.fallbacks,
    )  # fmt: skip


def _open_encoder(settings: Settings) -> Encoder:
    import torch

    from gc25d_core.vae.encode import open_encoder

    if settings.device == "cuda" and not torch.cuda.is_available():
        raise SystemFault(
            "device 'cuda' was asked for but torch sees no GPU; set the device to 'cpu', or check the driver and CUDA_VISIBLE_DEVICES"
        )
    return open_encoder(
        settings.vae, device=settings.device, precision=settings.precision,  # type: ignore[arg-type]
        cache_dir=settings.paths.cache, threads=settings.cpu_threads,
    )  # fmt: skip


class _decoded:
    """Decoded clips in order, a bounded number ahead; clips with faults are noted and left out."""

    def __init__(
        self, job: OpenRun, clips: list[ClipPlan], pool: ThreadPoolExecutor, ahead: int, spent: dict[str, float]
    ) -> None:
        self._job, self._clips, self._pool, self._spent = job, iter(clips), pool, spent
        self._waiting: deque[tuple[ClipPlan, Future[np.ndarray]]] = deque()
        for _ in range(ahead):
            self._submit()

    def _submit(self) -> None:
        clip = next(self._clips, None)
        if clip is not None:
            self._waiting.append((clip, self._pool.submit(clip_rgb, self._job.source, clip, self._job.geometry)))

    def __iter__(self) -> Iterator[tuple[ClipPlan, np.ndarray]]:
        while self._waiting:
            at = time.perf_counter()
            clip, future = self._waiting.popleft()
            try:
                video = future.result()
            except SourceError as e:
                self._job.failed(clip.clip, list(e.faults))
                self._submit()
                continue
            finally:
                self._spent["waiting"] += time.perf_counter() - at
            self._submit()
            yield clip, video

    def close(self) -> None:
        """Cancel what has not begun."""
        for _, future in self._waiting:
            future.cancel()


def _written(job: OpenRun, behind: deque[Future[int]], spent: dict[str, float]) -> None:
    at = time.perf_counter()
    job.wrote("latents", behind.popleft().result())
    spent["writing"] += time.perf_counter() - at


def _publish(job: OpenRun, clip: ClipPlan, encoded: EncodedClip, encoder: Encoder) -> int:
    import torch

    provenance: dict[str, Any] = {
        "kind": "latents", "fingerprint": job.fingerprints[f"latents/{clip.clip}"], "code_version": CODE_VERSION["latents"],
        "clip": clip.clip, "run": clip.run, "source_digest": source_digest("latents", job.source, clip),
        "geometry": job.geometry.to_json(), "versions": library_versions(),
        **encoder.provenance(encoded.precision_used),
    }  # fmt: skip
    value = {
        "latent": encoded.latent.contiguous().clone(),
        "actions_block": torch.tensor(clip.actions, dtype=torch.uint8),
        "frames": torch.arange(clip.s, clip.s + 81, dtype=torch.int32),
        "provenance": json.loads(
            json.dumps(provenance)
        ),  # plain types only: no subclass of str finds its way into a pickle
    }
    return job.build.publish(job.settings.paths.latents(clip.clip), lambda f: torch.save(value, f))
