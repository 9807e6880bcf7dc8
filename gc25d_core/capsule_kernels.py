"""Compiled ray-capsule arithmetic. float64, one thread, no fast-math: the same bits on every call.

All kernels live in this one file because numba's on-disk cache of a function is renewed by changes to the function's own
file only: a callee elsewhere could change under a stale cache.

A capsule is every point within `radius` of the segment a..b; a == b is a sphere. Everything is seen along the ray: with
d the unit direction and positions taken relative to the ray's start, a point splits into its depth t = x.d and its offset
x - t d across the ray. The segment becomes depth ta + s tk and offset p + s m for s in 0..1, and
- the line comes closest to the segment at s = clamp(-p.m / m.m);
- the capsule is the union of spheres around a + s k, whose entry depths ta + s tk - sqrt(r^2 - |p + s m|^2) are convex in s,
  so the first hit is at the clamped stationary point s0 - q tk / (|k| |m|), q^2 = r^2 - |p + s0 m|^2, s0 = -p.m / m.m.
Working across the ray keeps the numbers as small as the capsule, however far the camera is.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

TIE_CM = 1e-6
"""Depths or distances this close count as equal; the lower capsule index wins."""

_POINT = 1e-24  # |k|^2 in cm^2 below which a segment is a point; its square would underflow below
_PARALLEL = 1e-18  # (|m| / |k|)^2 below which the segment counts as parallel to the ray


@njit(cache=True, nogil=True)
def _unit(s):
    return min(max(s, 0.0), 1.0)


@njit(cache=True, nogil=True)
def ray_capsule(ax, ay, az, kx, ky, kz, r, dx, dy, dz):
    """First hit and surface distance of one forward ray. `a` is relative to the ray's start, k = b - a, d is a unit vector.

    Returns (t, gap): t in cm along the ray, 0 if the ray starts inside (or on) the capsule, inf if it misses; gap = distance
    of the forward ray to the segment minus the radius, <= 0 exactly where it hits.
    """
    if kx * kx + ky * ky + kz * kz < _POINT:
        kx = ky = kz = 0.0
    ta = ax * dx + ay * dy + az * dz
    tk = kx * dx + ky * dy + kz * dz
    px, py, pz = ax - ta * dx, ay - ta * dy, az - ta * dz
    mx, my, mz = kx - tk * dx, ky - tk * dy, kz - tk * dz
    mm = mx * mx + my * my + mz * mz
    kk = kx * kx + ky * ky + kz * kz
    parallel = mm <= _PARALLEL * kk
    s0 = 0.0 if parallel else -(px * mx + py * my + pz * mz) / mm
    s = _unit(s0)
    qx, qy, qz = px + s * mx, py + s * my, pz + s * mz
    across = qx * qx + qy * qy + qz * qz
    if ta + s * tk < 0.0:
        # The line is nearest behind the start; by convexity the forward ray is nearest at its start.
        s = 0.0 if kk == 0.0 else _unit(-(ax * kx + ay * ky + az * kz) / kk)
        qx, qy, qz = ax + s * kx, ay + s * ky, az + s * kz
        gap = math.sqrt(qx * qx + qy * qy + qz * qz) - r
        return (0.0 if gap <= 0.0 else math.inf), gap
    gap = math.sqrt(across) - r
    if gap > 0.0:
        return math.inf, gap
    if parallel:
        s = 0.0 if tk >= 0.0 else 1.0
    else:
        qx, qy, qz = px + s0 * mx, py + s0 * my, pz + s0 * mz
        q = math.sqrt(max(r * r - (qx * qx + qy * qy + qz * qz), 0.0))
        s = _unit(s0 - q * tk / math.sqrt(kk * mm))
    qx, qy, qz = px + s * mx, py + s * my, pz + s * mz
    t = ta + s * tk - math.sqrt(max(r * r - (qx * qx + qy * qy + qz * qz), 0.0))
    return max(t, 0.0), gap


@njit(cache=True, nogil=True)
def hits(caps, d):
    """`ray_capsule` of one ray (float64 [3], unit) with capsule rows float64 [N,8], float64 [N,2] = t, gap."""
    out = np.empty((len(caps), 2))
    for j in range(len(caps)):
        out[j] = ray_capsule(
            caps[j, 0], caps[j, 1], caps[j, 2], caps[j, 3], caps[j, 4], caps[j, 5], caps[j, 6], d[0], d[1], d[2]
        )
    return out


@njit(cache=True, nogil=True)
def _bounds(caps):
    """Bounding spheres of capsule rows: centre, |centre|^2, radius, cull threshold; float64 [N,6]."""
    out = np.empty((len(caps), 6))
    for j in range(len(caps)):
        x, y, z = caps[j, 0] + 0.5 * caps[j, 3], caps[j, 1] + 0.5 * caps[j, 4], caps[j, 2] + 0.5 * caps[j, 5]
        out[j, 0], out[j, 1], out[j, 2] = x, y, z
        kk = caps[j, 3] ** 2 + caps[j, 4] ** 2 + caps[j, 5] ** 2
        radius = 0.5 * math.sqrt(kk) + caps[j, 6]
        out[j, 3] = x * x + y * y + z * z
        out[j, 4] = radius * (1.0 + 1e-9) + 1e-9 * math.sqrt(out[j, 3])
        out[j, 5] = radius * radius + 1e-9 * (out[j, 3] + radius * radius)
    return out


@njit(cache=True, nogil=True)
def _culled(bounds, j, dx, dy, dz):
    """Whether the forward ray certainly misses capsule j (never true for one that it hits)."""
    along = bounds[j, 0] * dx + bounds[j, 1] * dy + bounds[j, 2] * dz
    return along < -bounds[j, 4] or bounds[j, 3] - along * along > bounds[j, 5]


@njit(cache=True, nogil=True)
def _lowest_tie(values, n, best):
    for j in range(n):
        if values[j] <= best + TIE_CM:
            return j
    return -1


@njit(cache=True, nogil=True)
def _pick(caps, bounds, members, n, nearest, values, dx, dy, dz):
    """Row of the first of `members[:n]` hit, else -1 or, with `nearest`, the row with the nearest surface."""
    best = math.inf
    for i in range(n):
        j = members[i]
        values[i] = math.inf
        if _culled(bounds, j, dx, dy, dz):
            continue
        values[i], _ = ray_capsule(
            caps[j, 0], caps[j, 1], caps[j, 2], caps[j, 3], caps[j, 4], caps[j, 5], caps[j, 6], dx, dy, dz
        )
        best = min(best, values[i])
    if best == math.inf:
        if not nearest:
            return -1
        for i in range(n):
            j = members[i]
            _, values[i] = ray_capsule(
                caps[j, 0], caps[j, 1], caps[j, 2], caps[j, 3], caps[j, 4], caps[j, 5], caps[j, 6], dx, dy, dz
            )
            best = min(best, values[i])
    return members[_lowest_tie(values, n, best)]


@njit(cache=True, nogil=True)
def label(out, us, vs, lens, axes, caps, members, counts, boxes):
    """Replaces ids 10 and 11 of `out` by part ids, in place.

    Args:
        out: uint8 [H,W] ids.
        us, vs: float64 [W], [H] pixel coordinates of the rays, in the pixels of `lens`.
        lens: float64 [4] = fx, fy, cx, cy.
        axes: float64 [3,3], camera directions to world directions.
        caps: float64 [N,8] = a - camera centre, b - a, radius, part id.
        members: int64 [2,N], rows of `caps` of player and boss; counts: int64 [2].
        boxes: int64 [N,4], those of `render`: most pixels meet two or three of a character's capsules, not all.

    Returns:
        int64 [2], pixels of player and boss left as they are because their owner has no capsule.
    """
    n = len(caps)
    bounds = _bounds(caps)
    values = np.empty(n)
    row = np.empty((2, n), np.int64)
    in_row = np.zeros(2, np.int64)
    pixel = np.empty(n, np.int64)
    missing = np.zeros(2, np.int64)
    for y in range(out.shape[0]):
        in_row[:] = -1
        yc = (vs[y] - lens[3]) / lens[1]
        bx = axes[0, 1] * yc + axes[0, 2]
        by = axes[1, 1] * yc + axes[1, 2]
        bz = axes[2, 1] * yc + axes[2, 2]
        for x in range(out.shape[1]):
            owner = np.int64(out[y, x]) - 10
            if owner != 0 and owner != 1:
                continue
            if counts[owner] == 0:
                missing[owner] += 1
                continue
            if in_row[owner] < 0:
                in_row[owner] = 0
                for i in range(counts[owner]):
                    j = members[owner, i]
                    if boxes[j, 1] <= y < boxes[j, 3]:
                        row[owner, in_row[owner]] = j
                        in_row[owner] += 1
            in_pixel = 0
            for i in range(in_row[owner]):
                j = row[owner, i]
                if boxes[j, 0] <= x < boxes[j, 2]:
                    pixel[in_pixel] = j
                    in_pixel += 1
            xc = (us[x] - lens[2]) / lens[0]
            dx, dy, dz = axes[0, 0] * xc + bx, axes[1, 0] * xc + by, axes[2, 0] * xc + bz
            w = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
            j = _pick(caps, bounds, pixel, in_pixel, False, values, dx * w, dy * w, dz * w)
            if j < 0:
                j = _pick(caps, bounds, members[owner], counts[owner], True, values, dx * w, dy * w, dz * w)
            out[y, x] = np.uint8(caps[j, 7])
    return missing


@njit(cache=True, nogil=True)
def render(out, us, vs, lens, axes, caps, boxes):
    """Writes the part id of the first capsule hit into `out` (uint8 [H,W], zeros), in place.

    `boxes`: int64 [N,4] = x0, y0, x1, y1 (half open) in target pixels, outside which capsule j is certainly not seen.
    The other arguments are those of `label`.
    """
    n = len(caps)
    if n == 0:
        return
    bounds = _bounds(caps)
    values = np.empty(n)
    row = np.empty(n, np.int64)
    pixel = np.empty(n, np.int64)
    for y in range(boxes[:, 1].min(), boxes[:, 3].max()):
        in_row, x0, x1 = 0, out.shape[1], 0
        for j in range(n):
            if boxes[j, 1] <= y < boxes[j, 3]:
                row[in_row] = j
                in_row += 1
                x0, x1 = min(x0, boxes[j, 0]), max(x1, boxes[j, 2])
        yc = (vs[y] - lens[3]) / lens[1]
        for x in range(x0, x1):
            in_pixel = 0
            for i in range(in_row):
                if boxes[row[i], 0] <= x < boxes[row[i], 2]:
                    pixel[in_pixel] = row[i]
                    in_pixel += 1
            if in_pixel == 0:
                continue
            xc = (us[x] - lens[2]) / lens[0]
            dx = axes[0, 0] * xc + axes[0, 1] * yc + axes[0, 2]
            dy = axes[1, 0] * xc + axes[1, 1] * yc + axes[1, 2]
            dz = axes[2, 0] * xc + axes[2, 1] * yc + axes[2, 2]
            w = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
            j = _pick(caps, bounds, pixel, in_pixel, False, values, dx * w, dy * w, dz * w)
            if j >= 0:
                out[y, x] = np.uint8(caps[j, 7])
