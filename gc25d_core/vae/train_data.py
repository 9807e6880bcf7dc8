"""Training clips for the demo VAE: our own synthetic recordings, rendered in the background while training runs."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

import numpy as np

from gc25d_core.frames import CLIP_FRAMES
from gc25d_core.geometry import Geometry

FAMILIES = ("v10", "v9")
SOURCE_SIZE = (640, 360)
TARGET_SIZE = (416, 240)
TRAIN_SEED = 50_000
"""First seed of the training clips; clip i has seed TRAIN_SEED + i."""
HELD_OUT_SEEDS = (90_001, 90_002, 90_003, 90_004)
"""Seeds that no training clip uses; the published figures are over these, both families."""


def render_clip(family: str, seed: int, frames: int = CLIP_FRAMES) -> np.ndarray:
    """uint8 [frames,240,416,3]: a synthetic recording as the encoder will see it, resampled by area."""
    import cv2

    from gc25d_core.synth import iter_frames

    cv2.setNumThreads(1)
    x, y, w, h = Geometry.fit(SOURCE_SIZE, TARGET_SIZE).crop
    pictures = (f.rgb[y : y + h, x : x + w] for f in iter_frames(family, seed, SOURCE_SIZE, frames))
    return np.stack([cv2.resize(p, TARGET_SIZE, interpolation=cv2.INTER_AREA) for p in pictures])


class ClipRenderer:
    """Renders held-out and training clips in worker processes. A context manager: leaving it stops the workers."""

    def __init__(self, *, workers: int, clips: int) -> None:
        self._pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
        jobs = [(FAMILIES[i % 2], TRAIN_SEED + i) for i in range(clips)]
        # The first training clips are needed at once, the held-out ones at the end.
        early = 2 * workers
        held = [(family, seed) for seed in HELD_OUT_SEEDS for family in FAMILIES]
        self._train = [self._pool.submit(render_clip, *job) for job in jobs[:early]]
        self._held = {job: self._pool.submit(render_clip, *job) for job in held}
        self._train += [self._pool.submit(render_clip, *job) for job in jobs[early:]]

    def __enter__(self) -> ClipRenderer:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ready(self) -> list[np.ndarray]:
        """Training clips that have become ready since the last call (each is handed out once)."""
        done = [f for f in self._train if f.done()]
        self._train = [f for f in self._train if f not in set(done)]
        return [f.result() for f in done]

    def wait_for(self, count: int) -> list[np.ndarray]:
        """Blocks until `count` training clips exist, and returns them."""
        found: list[np.ndarray] = []
        waiting: list[Future[np.ndarray]] = self._train[:count]
        self._train = self._train[count:]
        for future in as_completed(waiting):
            found.append(future.result())
        return found

    def held_out(self) -> Iterator[tuple[str, int, np.ndarray]]:
        """(family, seed, clip) of every held-out clip."""
        for (family, seed), future in self._held.items():
            yield family, seed, future.result()
