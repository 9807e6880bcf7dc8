"""Numbers of a clip, per frame and per step between neighbouring frames, from its part maps and capsules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gc25d_core.capsules import Capsules
from gc25d_core.classes import N_IDS, N_STATIC, OWNER_ID, PART_ID
from gc25d_core.image_kernels import histogram


def class_px(parts: np.ndarray) -> np.ndarray:
    """Pixels of each id in each frame, int32 [F,22], from part maps or ids uint8 [F,H,W].

    Raises:
        ValueError: an id is 22 or more, or the array is not uint8 [F,H,W].
    """
    _check(parts)
    out = np.empty((len(parts), N_IDS), np.int32)
    for f, frame in enumerate(parts):
        counts = histogram(np.ascontiguousarray(frame).reshape(-1), np.zeros((8, 256), np.uint32))
        if counts[N_IDS:].any():
            bad = (np.flatnonzero(counts[N_IDS:]) + N_IDS).tolist()
            raise ValueError(f"frame {f}: got ids {bad}, expected 0..{N_IDS - 1}")
        out[f] = counts[:N_IDS]
    return out


def player_px(counts: np.ndarray) -> np.ndarray:
    """Pixels of the player in each frame, int32 [F], from `class_px`; raw id 10 and parts 12..16 both count."""
    return _owner_px(counts, "player")


def boss_px(counts: np.ndarray) -> np.ndarray:
    """Pixels of the boss in each frame, int32 [F], from `class_px`; raw id 11 and parts 17..21 both count."""
    return _owner_px(counts, "boss")


def _owner_px(counts: np.ndarray, owner: str) -> np.ndarray:
    columns = [OWNER_ID[owner], *(v for (o, _), v in PART_ID.items() if o == owner)]
    return counts[:, columns].sum(axis=1, dtype=np.int32)


def static_change(parts: np.ndarray) -> np.ndarray:
    """Share of the pixels static (id < 7) in both neighbouring frames that change class, float32 [F-1].

    0 where no pixel is static in both. From part maps or ids uint8 [F,H,W]: characters do not take part.
    """
    _check(parts)
    out = np.zeros(max(len(parts) - 1, 0), np.float32)
    for f in range(len(out)):
        before, after = parts[f], parts[f + 1]
        both = np.maximum(before, after) < N_STATIC
        n = np.count_nonzero(both)
        if n:
            out[f] = np.count_nonzero(both & (before != after)) / n
    return out


def class_histogram_step(counts: np.ndarray) -> np.ndarray:
    """L1 distance of the static-class histograms of neighbouring frames, float64 [F-1], 0..2, from `class_px`.

    Each histogram is normalised to sum 1 over the static classes; NaN where one of the two frames has no static pixel.
    """
    static = counts[:, :N_STATIC].astype(np.float64)
    total = static.sum(axis=1, keepdims=True)
    share = np.divide(static, total, out=np.full_like(static, np.nan), where=total > 0)
    return np.abs(np.diff(share, axis=0)).sum(axis=1)


def ground_z(frames: Sequence[Capsules]) -> np.ndarray:
    """Lowest point of the player in each frame, float32 [F], cm: min over its capsules of (endpoint z - radius).

    NaN without player capsules. It follows the walk and the terrain.
    """
    out = np.full(len(frames), np.nan, np.float32)
    for f, capsules in enumerate(frames):
        mine = capsules.owner_mask("player")
        if mine.any():
            lower = np.minimum(capsules.a[mine, 2], capsules.b[mine, 2])
            out[f] = (lower - capsules.radius[mine]).min()
    return out


def max_frame_offset_cm(frames: Sequence[Capsules]) -> float:
    """Largest move of the player's capsule centroid between two neighbouring frames, cm.

    The centroid is the mean of all endpoints of the player's capsules. Steps with a frame without them do not count; 0 if
    none is left. Pass the clip's 81 frames.
    """
    centroid = np.full((len(frames), 3), np.nan)
    for f, capsules in enumerate(frames):
        mine = capsules.owner_mask("player")
        if mine.any():
            centroid[f] = (capsules.a[mine].mean(axis=0) + capsules.b[mine].mean(axis=0)) / 2
    moves = np.linalg.norm(np.diff(centroid, axis=0), axis=1)
    known = moves[np.isfinite(moves)]
    return float(known.max()) if len(known) else 0.0


def _check(parts: np.ndarray) -> None:
    if parts.dtype != np.uint8 or parts.ndim != 3:
        raise ValueError(f"parts: got {parts.dtype} {parts.shape}, expected uint8 [F,H,W]")
