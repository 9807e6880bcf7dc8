"""A source for throughput: many overlapping clips on few frames, pictures with film grain so that JPEGs weigh what real ones do.

Clips start every 4 frames (overlap is legal), so that 50 clips need 305 frames. A scene is drawn for every 4th frame and shown four times, each
time with fresh grain: decoding costs what it costs, drawing does not.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from gc25d_core.frames import BLOCK, FULL_FRAMES
from gc25d_core.synth.encode import frame_members
from gc25d_core.synth.frame_render import iter_frames
from gc25d_core.synth.shards import new_run_folder, write_run_files, write_shards

GRAIN = 6.0
"""Standard deviation of the grain in levels: 1280x720 JPEGs then weigh about 280 KB, as in real recordings."""


def dense_run_name(i: int) -> str:
    """Names of the runs, both families in turn."""
    return f"R10_bench{i:03d}" if i % 2 == 0 else f"P9_bench{i:03d}"


def write_dense_source(
    root: Path, *, runs: int, clips: int, size: tuple[int, int], grain: float = GRAIN, workers: int = 1
) -> None:
    """Write `runs` runs of `clips` clips at size (width, height) below `root`; runs that exist are left alone."""
    write = partial(write_dense_run, root, clips=clips, size=size, grain=grain)
    todo = [i for i in range(runs) if not (root / dense_run_name(i)).exists()]
    with ProcessPoolExecutor(min(workers, max(len(todo), 1)), mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(write, todo))


def write_dense_run(root: Path, i: int, *, clips: int, size: tuple[int, int], grain: float = GRAIN) -> Path:
    """Write one run; deterministic by `i`."""
    run, family = dense_run_name(i), "v10" if i % 2 == 0 else "v9"
    starts = range(0, BLOCK * clips, BLOCK)
    frames = starts[-1] + FULL_FRAMES
    blocks = [{"block": b, "actions": [b % 256] * 8, "prompt": f"walk {b // 10}"} for b in range(frames // BLOCK + 1)]
    run_json = {
        "run": run, "family": family, "fps": 30, "scene": {"id": 1 + i % 2, "name": ("valley", "ridge")[i % 2]},
        "clip_starts": list(starts), "image_size": list(size),
    }  # fmt: skip
    with new_run_folder(root, run) as folder:
        write_run_files(folder, run_json, blocks)
        write_shards(folder, _members(family, i, size, frames, grain), per_shard=300)
    return root / run


def _members(family: str, seed: int, size: tuple[int, int], frames: int, grain: float) -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(seed)
    drawn = iter_frames(family, seed, size, -(-frames // BLOCK))
    for frame in range(frames):
        if frame % BLOCK == 0:
            picture = next(drawn)
            noise = np.round(rng.normal(0.0, grain, picture.rgb.shape)).astype(np.int16)
        rgb = np.clip(picture.rgb + np.roll(noise, 7 * (frame % BLOCK), axis=1), 0, 255).astype(np.uint8)
        look = {**picture.json, "frame": frame, "episode": 0}
        yield from frame_members(frame, rgb, picture.ids, look)
