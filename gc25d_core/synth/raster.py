"""A z-buffer triangle rasteriser. A pixel is covered where its centre (i + 0.5, j + 0.5) is in the drawn triangle."""

from __future__ import annotations

import numpy as np
from numba import njit

NEAR = 10.0  # cm


@njit(cache=True, nogil=True)
def clear_buffers(inverse_depth, triangle_index):  # type: ignore[no-untyped-def]
    """Empty buffers: inverse depth 0 (infinitely far), triangle -1 (sky)."""
    inverse_depth[:] = 0.0
    triangle_index[:] = -1


@njit(cache=True, nogil=True)
def _fill(x0, y0, q0, x1, y1, q1, x2, y2, q2, index, inverse_depth, triangle_index):  # type: ignore[no-untyped-def]
    height, width = inverse_depth.shape
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    if area == 0.0:
        return
    left = max(0, int(np.ceil(min(x0, x1, x2) - 0.5)))
    right = min(width - 1, int(np.floor(max(x0, x1, x2) - 0.5)))
    top = max(0, int(np.ceil(min(y0, y1, y2) - 0.5)))
    bottom = min(height - 1, int(np.floor(max(y0, y1, y2) - 0.5)))
    inverse_area = 1.0 / area
    for j in range(top, bottom + 1):
        py = j + 0.5
        for i in range(left, right + 1):
            px = i + 0.5
            w0 = ((x1 - px) * (y2 - py) - (x2 - px) * (y1 - py)) * inverse_area
            w1 = ((x2 - px) * (y0 - py) - (x0 - px) * (y2 - py)) * inverse_area
            w2 = 1.0 - w0 - w1
            if w0 < -1e-9 or w1 < -1e-9 or w2 < -1e-9:
                continue
            q = w0 * q0 + w1 * q1 + w2 * q2
            if q > inverse_depth[j, i]:
                inverse_depth[j, i] = q
                triangle_index[j, i] = index


@njit(cache=True, nogil=True)
def rasterise(  # type: ignore[no-untyped-def]
    vertices, triangles, first_index, world_to_camera, intrinsics, inverse_depth, triangle_index
):
    """Draws triangles into the buffers.

    Args:
        vertices: float64 [V, 3], world cm.
        triangles: int32 [T, 3], counter-clockwise seen from outside; back faces are dropped.
        first_index: what `triangle_index` gets for triangle 0.
        world_to_camera: float64 [4, 4]; camera x right, y down, z forward.
        intrinsics: float64 [4]: fx, fy, cx, cy in px.
        inverse_depth: float64 [H, W], 1 / cm, linear in the image; updated in place.
        triangle_index: int32 [H, W]; updated in place.
    """
    height, width = inverse_depth.shape
    fx, fy, cx, cy = intrinsics[0], intrinsics[1], intrinsics[2], intrinsics[3]
    count = vertices.shape[0]
    cam = np.empty((count, 3))
    u = np.empty(count)
    v = np.empty(count)
    for k in range(count):
        for r in range(3):
            cam[k, r] = (
                world_to_camera[r, 0] * vertices[k, 0]
                + world_to_camera[r, 1] * vertices[k, 1]
                + world_to_camera[r, 2] * vertices[k, 2]
                + world_to_camera[r, 3]
            )
        if cam[k, 2] >= NEAR:
            u[k] = fx * cam[k, 0] / cam[k, 2] + cx
            v[k] = fy * cam[k, 1] / cam[k, 2] + cy
    poly = np.empty((4, 3))
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        za, zb, zc = cam[a, 2], cam[b, 2], cam[c, 2]
        if za < NEAR and zb < NEAR and zc < NEAR:
            continue
        if za >= NEAR and zb >= NEAR and zc >= NEAR:
            # Counter-clockwise from outside is clockwise in an image whose y points down: positive here is a back face.
            if (u[b] - u[a]) * (v[c] - v[a]) - (u[c] - u[a]) * (v[b] - v[a]) >= 0.0:
                continue
            if max(u[a], u[b], u[c]) < 0.0 or min(u[a], u[b], u[c]) > width:
                continue
            if max(v[a], v[b], v[c]) < 0.0 or min(v[a], v[b], v[c]) > height:
                continue
            _fill(
                u[a],
                v[a],
                1.0 / za,
                u[b],
                v[b],
                1.0 / zb,
                u[c],
                v[c],
                1.0 / zc,
                first_index + t,
                inverse_depth,
                triangle_index,
            )
            continue
        # Cut at the near plane: 3 or 4 corners are left.
        corners = 0
        for e in range(3):
            p = triangles[t, e]
            n = triangles[t, (e + 1) % 3]
            if cam[p, 2] >= NEAR:
                poly[corners] = cam[p]
                corners += 1
            if (cam[p, 2] >= NEAR) != (cam[n, 2] >= NEAR):
                s = (NEAR - cam[p, 2]) / (cam[n, 2] - cam[p, 2])
                poly[corners] = cam[p] + s * (cam[n] - cam[p])
                corners += 1
        for e in range(1, corners - 1):
            x0, y0 = fx * poly[0, 0] / poly[0, 2] + cx, fy * poly[0, 1] / poly[0, 2] + cy
            x1, y1 = fx * poly[e, 0] / poly[e, 2] + cx, fy * poly[e, 1] / poly[e, 2] + cy
            x2, y2 = fx * poly[e + 1, 0] / poly[e + 1, 2] + cx, fy * poly[e + 1, 1] / poly[e + 1, 2] + cy
            if (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0) >= 0.0:
                continue
            _fill(
                x0,
                y0,
                1.0 / poly[0, 2],
                x1,
                y1,
                1.0 / poly[e, 2],
                x2,
                y2,
                1.0 / poly[e + 1, 2],
                first_index + t,
                inverse_depth,
                triangle_index,
            )
