"""Triangle meshes: solid primitives for the scenery, and capsules with a bounded tessellation error.

All meshes are closed and wound so that the normal (v1 - v0) x (v2 - v0) points outwards; back faces are not drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

#: Segments around a capsule. A facet of the round caps lies at most 2 (1 - cos(pi / 48)) = 0.43 % of the radius inside.
CAPSULE_SEGMENTS = 48
_CAP_RINGS = CAPSULE_SEGMENTS // 4
CAPSULE_SAGITTA = 2.0 * (1.0 - np.cos(np.pi / CAPSULE_SEGMENTS))


@dataclass(frozen=True)
class Mesh:
    """`vertices` float64 [V, 3] in cm, `triangles` int32 [T, 3]."""

    vertices: F64
    triangles: I32

    def normals(self) -> F64:
        """Unit face normals, float64 [T, 3]."""
        corners = self.vertices[self.triangles]
        cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.linalg.norm(cross, axis=1, keepdims=True)
        return np.asarray(cross / np.maximum(length, 1e-12), np.float64)

    def moved(self, *, scale: tuple[float, float, float], yaw: float, at: tuple[float, float, float]) -> Mesh:
        """Scaled per axis, turned by `yaw` radians about z, then shifted to `at` (cm)."""
        c, s = np.cos(yaw), np.sin(yaw)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        return Mesh((self.vertices * np.array(scale)) @ turn.T + np.array(at), self.triangles)


def _lathe(radii: F64, heights: F64, sides: int) -> Mesh:
    """A profile turned about z; rows run upwards, first and last row must have radius 0."""
    angle = np.arange(sides) * (2 * np.pi / sides)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rows = len(radii)
    vertices = np.empty((rows, sides, 3))
    vertices[..., :2] = radii[:, None, None] * ring
    vertices[..., 2] = heights[:, None]
    row, col = np.meshgrid(np.arange(rows - 1), np.arange(sides), indexing="ij")
    p00 = row * sides + col
    p01 = row * sides + (col + 1) % sides
    p10, p11 = p00 + sides, p01 + sides
    lower = np.stack([p00, p01, p11], axis=-1)[1:]
    upper = np.stack([p00, p11, p10], axis=-1)[:-1]
    triangles = np.concatenate([lower.reshape(-1, 3), upper.reshape(-1, 3)])
    return Mesh(vertices.reshape(-1, 3), triangles.astype(np.int32))


def cylinder(sides: int, *, top: float = 1.0) -> Mesh:
    """Radius 1 at z = 0, radius `top` at z = 1, closed."""
    return _lathe(np.array([0.0, 1.0, top, 0.0]), np.array([0.0, 0.0, 1.0, 1.0]), sides)


def cone(sides: int) -> Mesh:
    """Radius 1 at z = 0, tip at z = 1, closed."""
    return _lathe(np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]), sides)


def ball(sides: int, rings: int) -> Mesh:
    """Unit sphere about the origin."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, rings + 1)
    radii = np.cos(angle)
    radii[[0, -1]] = 0.0
    return _lathe(radii, np.sin(angle), sides)


def boulder(rng: np.random.Generator) -> Mesh:
    """A bumpy unit ball: each vertex is moved along its own ray by up to a fifth."""
    base = ball(9, 6)
    bumps = rng.uniform(0.78, 1.12, size=(7, 9))
    bumps[[0, -1]] = bumps[[0, -1]].mean(axis=1, keepdims=True)
    return Mesh(base.vertices * bumps.reshape(-1, 1), base.triangles)


def box() -> Mesh:
    """The cube -1..1 in x and y, 0..1 in z."""
    corner = np.array([[x, y, z] for z in (0, 1) for y in (-1, 1) for x in (-1, 1)], dtype=np.float64)
    quads = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    triangles = [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]
    return Mesh(corner, np.array(triangles, np.int32))


def _capsule_template() -> tuple[F64, NDArray[np.bool_], I32]:
    """Directions from the axis' end points [V, 3] (axis along z), which end each belongs to (True: b), triangles."""
    half = np.linspace(0.0, np.pi / 2, _CAP_RINGS + 1)
    latitude = np.concatenate([-half[::-1], half])
    radii = np.cos(latitude)
    radii[[0, -1]] = 0.0
    mesh = _lathe(radii, np.sin(latitude), CAPSULE_SEGMENTS)
    at_b = np.repeat(np.arange(len(latitude)) > _CAP_RINGS, CAPSULE_SEGMENTS)
    return mesh.vertices, at_b, mesh.triangles


_DIRECTIONS, _AT_B, CAPSULE_TRIANGLES = _capsule_template()
CAPSULE_VERTICES = len(_DIRECTIONS)


def capsule_vertices(a: F64, b: F64, radius: F64) -> F64:
    """Vertices of N capsule meshes, float64 [N, V, 3], for end points [N, 3] and radii [N] in cm.

    Every capsule has the triangles `CAPSULE_TRIANGLES`. Vertices are pushed out by half the sagitta, so that the facets
    straddle the true surface. a = b gives a sphere.
    """
    axis = b - a
    length = np.linalg.norm(axis, axis=1, keepdims=True)
    z = np.where(length > 1e-9, axis / np.maximum(length, 1e-9), np.array([0.0, 0.0, 1.0]))
    helper = np.where(np.abs(z[:, 2:3]) < 0.9, np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]))
    x = np.cross(helper, z)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    basis = np.stack([x, np.cross(z, x), z], axis=1)
    reach = radius * (1.0 + CAPSULE_SAGITTA / 2)
    ends = np.where(_AT_B[None, :, None], b[:, None, :], a[:, None, :])
    return np.asarray(ends + reach[:, None, None] * (_DIRECTIONS @ basis), np.float64)
