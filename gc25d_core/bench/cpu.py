"""CPU cost of one clip, step by step, against the bare floor of the same data.

Seconds are CPU seconds of this process (user + system), so other work on the machine does not count. The floor is what
nobody can leave out: decode every JPEG, decode every id PNG, deflate the label map, with the same libraries and nothing else.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gc25d_core import clip_stats
from gc25d_core.frames import clip_frames, full_frames
from gc25d_core.geometry import Geometry
from gc25d_core.images import decode_ids, decode_rgb, resample_ids, resample_rgb
from gc25d_core.labels import label_parts
from gc25d_core.outputs.npz import write_npz
from gc25d_core.plan import ClipPlan, plan_source
from gc25d_core.prepare.conditions import make_conditions
from gc25d_core.source import RunSource, list_runs, open_run


class Stopwatch:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun


def measure_clip(source: RunSource, clip: ClipPlan, geometry: Geometry) -> dict[str, dict[str, float]]:
    """`steps`, `floor` and `whole`, each CPU seconds by name, of one clip."""
    frames, pictures = full_frames(clip.s, clip.has_ext), clip_frames(clip.s)
    size = source.info.image_size
    raw_ids = {f: source.read(f, "ids") for f in frames}
    jpgs = {f: source.read(f, "jpg") for f in pictures}
    steps, floor, whole = Stopwatch(), Stopwatch(), Stopwatch()
    with steps("json"):
        records = [source.record(f) for f in frames]
    with steps("ids: decode and check"):
        ids = [decode_ids(raw_ids[f], size) for f in frames]
    with steps("ids: resample"):
        small = [resample_ids(i, geometry) for i in ids]
    with steps("labels"):
        parts = np.stack([label_parts(i, r.camera, r.capsules, geometry) for i, r in zip(small, records)])
    with steps("statistics"):
        counts = clip_stats.class_px(parts)
        clip_stats.static_change(parts)
        clip_stats.player_px(counts)
    with steps("npz"):
        write_npz(io.BytesIO(), {"parts": parts}, {})
    with steps("jpg: decode"):
        rgb = [decode_rgb(jpgs[f], size) for f in pictures]
    with steps("jpg: resample"):
        for picture in rgb:
            resample_rgb(picture, geometry)
    _floor(floor, list(jpgs.values()), list(raw_ids.values()), parts)
    with whole("conditions"):
        make_conditions(source, clip, geometry)
    with whole("pictures"):
        for f in pictures:
            resample_rgb(decode_rgb(source.read(f, "jpg"), size), geometry)
    return {"steps": steps.seconds, "floor": floor.seconds, "whole": whole.seconds}


def _floor(watch: Stopwatch, jpgs: list[bytes], pngs: list[bytes], parts: np.ndarray) -> None:
    import cv2
    import simplejpeg
    from isal import isal_zlib

    with watch("JPEG decode"):
        for data in jpgs:
            simplejpeg.decode_jpeg(data, "RGB")
    with watch("PNG decode"):
        for data in pngs:
            cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    with watch("deflate"):
        isal_zlib.compress(parts.tobytes(), 1)


def bench_cpu(src: Path, size: tuple[int, int], *, clips: int = 3, repeats: int = 3) -> dict[str, Any]:
    """Medians over `repeats` of the first `clips` clips below `src`, after one warm-up; a json value.

    Raises:
        SettingsError: no source. ValueError: no clip in it, or the target does not fit.
    """
    import cv2

    threads = cv2.getNumThreads()
    cv2.setNumThreads(0)
    try:
        measured: list[dict[str, dict[str, float]]] = []
        for source, clip, geometry in _clips(src, size, clips):
            measure_clip(source, clip, geometry)
            runs = [measure_clip(source, clip, geometry) for _ in range(repeats)]
            measured.append(_combine(runs, median))
    finally:
        cv2.setNumThreads(threads)
    if not measured:
        raise ValueError(f"no clip to measure below {src}")
    mean = _combine(measured, lambda values: sum(values) / len(values))
    total, floor = sum(mean["whole"].values()) + mean["steps"]["npz"], sum(mean["floor"].values())
    return {
        "clips": len(measured),
        "size": list(size),
        "cpu_seconds_per_clip": {part: {k: round(v, 4) for k, v in named.items()} for part, named in mean.items()},
        "total": round(total, 4),
        "floor": round(floor, 4),
        "ratio": round(total / floor, 3),
    }


def _clips(src: Path, size: tuple[int, int], most: int) -> Iterator[tuple[RunSource, ClipPlan, Geometry]]:
    for run in list_runs(src):
        source = open_run(src, run, cache=None)
        geometry = Geometry.fit(source.info.image_size, size)
        for clip in plan_source(source, size).clips:
            if most == 0:
                return
            most -= 1
            yield source, clip, geometry


def _combine(
    runs: list[dict[str, dict[str, float]]], how: Callable[[list[float]], float]
) -> dict[str, dict[str, float]]:
    return {part: {name: how([r[part][name] for r in runs]) for name in named} for part, named in runs[0].items()}
