"""A small picture of a run for its metadata: first frames, and the body parts over them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import dagster as dg

from gc25d_core.errors import OutputError, SourceError

if TYPE_CHECKING:
    import numpy as np

    from gc25d_core.plan import ClipPlan
    from gc25d_core.settings import Settings
    from gc25d_core.source import RunSource

TILE_WIDTH = 240
CLIPS = 3
OVERLAY = 0.55
MAX_BYTES = 100_000


def contact_sheet(settings: Settings, run: str) -> dg.MarkdownMetadataValue | None:
    """First frame, and parts over it, of up to three clips spread over the run. None where no clip is finished."""
    import numpy as np

    from gc25d_core.plan import read_plan
    from gc25d_core.source import open_run

    try:
        source = open_run(settings.src, run, cache=settings.paths.cache)
    except SourceError:
        return None
    try:
        clips = read_plan(settings, run).clips
        chosen = [clips[i] for i in sorted({0, len(clips) // 2, len(clips) - 1})] if clips else []
        rows = [row for row in (_row(settings, source, clip) for clip in chosen[:CLIPS]) if row is not None]
    finally:
        source.close()
    return _markdown(np.concatenate(rows), run) if rows else None


def _row(settings: Settings, source: RunSource, clip: ClipPlan) -> np.ndarray | None:
    """uint8 [h, 2w, 3] RGB of one clip; None where the picture or the condition map cannot be read."""
    import cv2
    import numpy as np

    from gc25d_core.classes import PALETTE
    from gc25d_core.geometry import Geometry
    from gc25d_core.images import ImageFault, decode_rgb, resample_rgb
    from gc25d_core.outputs.files import read_cond

    try:
        geometry = Geometry.fit(source.info.image_size, settings.size)
        rgb = resample_rgb(decode_rgb(source.read(clip.s, "jpg"), source.info.image_size), geometry)
        parts = read_cond(settings.paths.cond(clip.clip)).parts[0]
    except (SourceError, ImageFault, OutputError):
        return None  # the checks speak of these; a picture is no place to fail
    width, height = geometry.target
    size = (TILE_WIDTH, round(height * TILE_WIDTH / width))
    small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    colours = PALETTE[cv2.resize(parts, size, interpolation=cv2.INTER_NEAREST)]
    mixed = cv2.addWeighted(small, 1 - OVERLAY, colours, OVERLAY, 0)
    return np.concatenate([small, mixed], axis=1)


def _markdown(rgb: np.ndarray, run: str) -> dg.MarkdownMetadataValue | None:
    import cv2
    import numpy as np

    for quality in (85, 60, 30):
        ok, jpeg = cv2.imencode(".jpg", np.ascontiguousarray(rgb[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, quality])
        if ok and jpeg.nbytes <= MAX_BYTES:
            data = base64.b64encode(jpeg.tobytes()).decode()
            return dg.MetadataValue.md(f"![{run}: frames and body parts](data:image/jpeg;base64,{data})")
    return None
