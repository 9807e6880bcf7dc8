"""Body parts by plain numpy from a frame's raw json: a second way to what `gc25d_core.labels` computes.

Written from the definition alone and kept free of that module: rays by solving against the raw matrix, first hits as the
smallest entry into the capsule's two spheres or its tube, distances as the minimum of a convex quadratic over a box.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PART_NUMBER = {"head": 0, "torso": 1, "arms": 2, "legs": 3, "weapon": 4}
FIRST_NUMBER = {"player": 12, "boss": 17}
CLOSE_CM = 1e-4
"""Capsules as near as this to the best one are all accepted: the last bits of two ways to compute may differ."""


def rays(camera: dict[str, Any], u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Origin [3] and unit directions [P,3] in world cm of the rays through source pixel coordinates u, v [P]."""
    pose = np.array(camera["world_to_camera"], np.float64)
    in_camera = np.stack([(u - camera["cx"]) / camera["fx"], (v - camera["cy"]) / camera["fy"], np.ones_like(u)])
    ends = np.linalg.solve(pose[:3, :3], np.column_stack([-pose[:3, 3], in_camera]))
    origin, directions = ends[:, 0], ends[:, 1:].T
    return origin, directions / np.linalg.norm(directions, axis=1, keepdims=True)


def hit_and_gap(
    origin: np.ndarray, d: np.ndarray, a: np.ndarray, b: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """First hit (cm along the ray, inf if none, 0 from inside) and surface distance (cm) of rays with one capsule, [P] each."""
    gap = _distance(origin, d, a, b) - radius
    inside = _point_segment(origin, a, b) <= radius
    t = np.full(len(d), np.inf)
    for centre in (a, b):
        m = origin - centre
        half = d @ m
        disc = half**2 - (m @ m - radius**2)
        root = -half - np.sqrt(np.maximum(disc, 0))
        t = np.where((disc >= 0) & (root >= 0), np.minimum(t, root), t)
    length = float(np.linalg.norm(b - a))
    if length > 0:
        axis = (b - a) / length
        m = origin - a
        dd, mm = d - np.outer(d @ axis, axis), m - (m @ axis) * axis
        qa, qb, qc = (dd * dd).sum(axis=1), dd @ mm, mm @ mm - radius**2
        disc = qb**2 - qa * qc
        with np.errstate(divide="ignore", invalid="ignore"):
            root = (-qb - np.sqrt(np.maximum(disc, 0))) / qa
        along = m @ axis + root * (d @ axis)
        ok = (qa > 0) & (disc >= 0) & (root >= 0) & (along >= 0) & (along <= length)
        t = np.where(ok, np.minimum(t, root), t)
    return (np.zeros(len(d)) if inside else t), gap


def _point_segment(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    ab = b - a
    s = np.clip((p - a) @ ab / (ab @ ab), 0, 1) if ab @ ab > 0 else 0.0
    return float(np.linalg.norm(p - a - s * ab))


def _distance(origin: np.ndarray, d: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance of forward rays (t >= 0) to a segment (0 <= s <= 1): the smallest over the box's inside and its edges."""
    ab, m = b - a, origin - a
    candidates = []
    for s in (0.0, 1.0):  # the segment's ends
        t = np.maximum(-(d @ (m - s * ab)), 0)
        candidates.append((t, np.full(len(d), s)))
    if (aa := ab @ ab) > 0:
        candidates.append((np.zeros(len(d)), np.full(len(d), np.clip(m @ ab / aa, 0, 1))))  # the ray's start
        along = d @ ab
        det = aa - along**2
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (m @ ab - (d @ m) * along) / det
            t = s * along - d @ m
        inner = (det > 1e-12 * aa) & (s >= 0) & (s <= 1) & (t >= 0)
        candidates.append((np.where(inner, t, 0.0), np.where(inner, s, np.clip(m @ ab / aa, 0, 1))))
    points = (m + t[:, None] * d - s[:, None] * ab for t, s in candidates)
    return np.min([np.linalg.norm(p, axis=1) for p in points], axis=0)


def unlike_definition(
    ids: np.ndarray, parts: np.ndarray, columns: np.ndarray, rows: np.ndarray, record: dict[str, Any]
) -> int:
    """Character pixels of a frame whose part the definition does not allow.

    Args:
        ids: uint8 [H,W], nearest ids at target size. parts: uint8 [H,W], what `cond` says.
        columns, rows: source column [W] and row [H] that nearest picks.
        record: the frame's json, parsed.
    """
    wrong = 0
    for owner, raw in (("player", 10), ("boss", 11)):
        j, i = np.nonzero(ids == raw)
        mine = [c for c in record["capsules"] if c["owner"] == owner]
        if not len(j):
            continue
        if not mine:
            wrong += len(j)
            continue
        origin, d = rays(record["camera"], columns[i] + 0.5, rows[j] + 0.5)
        both = [
            hit_and_gap(origin, d, np.array(c["a"], float), np.array(c["b"], float), float(c["radius"])) for c in mine
        ]
        hits, gaps = np.array([h for h, _ in both]), np.array([g for _, g in both])
        # A ray that grazes a surface may count as a hit or not: then both rules are acceptable.
        nearest_hit, nearest_gap = hits.min(axis=0), gaps.min(axis=0)
        by_hit = np.isfinite(nearest_hit) & (hits <= nearest_hit + CLOSE_CM)
        by_gap = (nearest_gap > -CLOSE_CM) & (gaps <= nearest_gap + CLOSE_CM)
        part = np.array([FIRST_NUMBER[owner] + PART_NUMBER[c["part"]] for c in mine])
        allowed = ((by_hit | by_gap) & (part[:, None] == parts[j, i])).any(axis=0)
        wrong += int((~allowed).sum())
    return wrong
