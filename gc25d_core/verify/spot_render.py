"""Deep check of one clip's `meta`: characters rendered anew from it must lie where `cond` shows them."""

from __future__ import annotations

import json
from typing import Any

import cv2
import numpy as np

from gc25d_core.errors import OutputError
from gc25d_core.geometry import Geometry
from gc25d_core.labels import render_capsules_from_meta
from gc25d_core.rows import Row
from gc25d_core.settings import Settings
from gc25d_core.verify.containers import read_raw
from gc25d_core.verify.results import CheckResult, Findings

MIN_PIXELS = 300
"""A frame counts for a character with at least so many of its pixels."""
COVERAGE = 0.99
MEDIAN_IOU = 0.99
ERODE_PX = 2
_PARTS = {"player": (12, 16), "boss": (17, 21)}


def is_unoccluded(parts: np.ndarray, silhouette: np.ndarray, owner: str) -> bool:
    """Whether nothing stands before the character: no static class inside its silhouette eroded by 2 px, and no pixel of the
    other character there.

    Args:
        parts: uint8 [H,W], what `cond` shows. silhouette: bool [H,W], where the re-render has the character.
    """
    element = cv2.getStructuringElement(cv2.MORPH_RECT, (2 * ERODE_PX + 1, 2 * ERODE_PX + 1))
    border: dict[str, Any] = {
        "borderType": cv2.BORDER_CONSTANT,
        "borderValue": 1,
    }  # a body cut by the picture's edge stays
    inner = cv2.erode(silhouette.astype(np.uint8), element, **border).astype(bool)
    low, high = _PARTS[owner]
    return not (inner & ~((parts >= low) & (parts <= high))).any()


def spot_render(settings: Settings, row: Row) -> list[CheckResult]:
    """Share of true pixels covered, median IoU over unoccluded frames, pooled IoU; for each character of one clip.

    Not applicable to a character without a frame of 300 pixels (coverage) or without such an unoccluded one (IoU).
    """
    covered = Findings("spot_coverage", f"re-render covers >= {COVERAGE} of the character's pixels")
    iou = Findings("spot_iou", f"median IoU over unoccluded frames >= {MEDIAN_IOU}")
    at: dict[str, Any] = {"run": row.run, "clip": row.clip}
    try:
        meta, _ = read_raw("meta", settings.paths.meta(row.clip))
        kinds = ("cond", "cond_ext")[: 1 + row.has_ext]
        parts = np.concatenate([read_raw(kind, settings.paths.clip(kind, row.clip))[0]["parts"] for kind in kinds])
        x, y = _source_size(meta)
        geometry = Geometry.fit((x, y), settings.size)
        rendered = [
            render_capsules_from_meta(meta["K"][i], meta["world_to_camera"][i], meta["capsules"][i], geometry)
            if max(int(meta["player_px"][i]), int(meta["boss_px"][i])) >= MIN_PIXELS
            else None
            for i in range(len(parts))
        ]
    except (OutputError, KeyError, ValueError, IndexError) as e:
        for c in (covered, iou):
            c.clips = 1
            c.add(f"cannot be checked: {type(e).__name__}: {e}", **at)
        return [covered.result(), iou.result()]
    for owner, (low, high) in _PARTS.items():
        numbers = _measure(parts, rendered, owner, low, high)
        if numbers is None:
            continue
        covered.clips = 1
        covered.figure |= {f"{owner}_coverage_min": numbers["coverage"], f"{owner}_frames": numbers["frames"]}
        if numbers["coverage"] < COVERAGE:
            covered.add(f"{owner}: {numbers['coverage']:.4f} of its pixels covered", **at)
        iou.figure |= {f"{owner}_pooled_iou_min": numbers["pooled"]}
        if numbers["median"] is not None:
            iou.clips = 1
            iou.figure |= {
                f"{owner}_median_iou_min": numbers["median"],
                f"{owner}_unoccluded_frames": numbers["unoccluded"],
            }
            if numbers["median"] < MEDIAN_IOU:
                iou.add(
                    f"{owner}: median IoU {numbers['median']:.4f} over {numbers['unoccluded']} unoccluded frames", **at
                )
    return [c.result(applicable=c.clips > 0) for c in (covered, iou)]


def _source_size(meta: dict[str, np.ndarray]) -> tuple[int, int]:
    w, h = json.loads(str(meta["geometry"]))["source"]
    return int(w), int(h)


def _measure(
    parts: np.ndarray, rendered: list[np.ndarray | None], owner: str, low: int, high: int
) -> dict[str, Any] | None:
    """Numbers of one character over the frames where it has enough pixels; None without such a frame."""
    true_px = hit_px = union_px = frames = 0
    ious: list[float] = []
    for frame, again in zip(parts, rendered, strict=True):
        shown = (frame >= low) & (frame <= high)
        n = int(np.count_nonzero(shown))
        if n < MIN_PIXELS or again is None:
            continue
        silhouette = (again >= low) & (again <= high)
        both, either = int(np.count_nonzero(shown & silhouette)), int(np.count_nonzero(shown | silhouette))
        frames, true_px, hit_px, union_px = frames + 1, true_px + n, hit_px + both, union_px + either
        if is_unoccluded(frame, silhouette, owner):
            ious.append(both / either)
    if not frames:
        return None
    median = float(np.median(ious)) if ious else None
    return {
        "frames": frames,
        "coverage": hit_px / true_px,
        "pooled": hit_px / union_px,
        "median": median,
        "unoccluded": len(ious),
    }
