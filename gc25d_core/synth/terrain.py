"""The ground: a heightfield over a square grid, flat where the fight takes place, hills and hollows around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gc25d_core.synth.mesh import F64, Mesh

CELL = 320.0  # cm
CELLS = 96
ORIGIN = -CELL * CELLS / 2
WATER_LEVEL = -70.0  # cm

#: (id, name) of the scenes; ids are not consecutive on purpose: 10 sorts after 2 as a number, before it as text.
SCENES = ((1, "valley"), (2, "ridge"), (10, "lakeside"))


@dataclass(frozen=True)
class Terrain:
    """`height` float64 [CELLS + 1, CELLS + 1] in cm, indexed [ix, iy] at x = ORIGIN + ix CELL, y alike."""

    height: F64

    def at(self, x: F64 | float, y: F64 | float) -> F64:
        """Height in cm of the MESH (not of a smooth surface) under each point; the same two triangles a cell."""
        u = np.clip((np.asarray(x, np.float64) - ORIGIN) / CELL, 0.0, CELLS - 1e-9)
        v = np.clip((np.asarray(y, np.float64) - ORIGIN) / CELL, 0.0, CELLS - 1e-9)
        i, j = u.astype(np.int64), v.astype(np.int64)
        fu, fv = u - i, v - j
        h00, h11 = self.height[i, j], self.height[i + 1, j + 1]
        h10, h01 = self.height[i + 1, j], self.height[i, j + 1]
        lower = h00 + fu * (h10 - h00) + fv * (h11 - h10)
        upper = h00 + fu * (h11 - h01) + fv * (h01 - h00)
        return np.asarray(np.where(fu >= fv, lower, upper), np.float64)

    def mesh(self) -> Mesh:
        """Two triangles a cell, split along the diagonal from (i, j) to (i + 1, j + 1), facing up."""
        side = CELLS + 1
        coordinate = ORIGIN + CELL * np.arange(side)
        x, y = np.meshgrid(coordinate, coordinate, indexing="ij")
        vertices = np.stack([x, y, self.height], axis=-1).reshape(-1, 3)
        i, j = np.meshgrid(np.arange(CELLS), np.arange(CELLS), indexing="ij")
        p00 = (i * side + j).ravel()
        p10, p01, p11 = p00 + side, p00 + 1, p00 + side + 1
        triangles = np.concatenate([np.stack([p00, p10, p11], 1), np.stack([p00, p11, p01], 1)])
        return Mesh(vertices, triangles.astype(np.int32))

    def vertex_normals(self) -> NDArray[np.float32]:
        """Smooth unit normals, float32 [CELLS + 1, CELLS + 1, 3]."""
        dx, dy = np.gradient(self.height, CELL)
        normal = np.stack([-dx, -dy, np.ones_like(dx)], axis=-1)
        return np.asarray(normal / np.linalg.norm(normal, axis=-1, keepdims=True), np.float32)


def make_terrain(scene: str, rng: np.random.Generator) -> Terrain:
    """A terrain of the scene: within 16 m of the origin it rolls by some centimetres, beyond it rises into hills."""
    side = ORIGIN + CELL * np.arange(CELLS + 1)
    x, y = np.meshgrid(side, side, indexing="ij")
    radius = np.hypot(x, y)

    def waves(count: int, length: tuple[float, float]) -> F64:
        total = np.zeros_like(x)
        for _ in range(count):
            direction, phase = rng.uniform(0, 2 * np.pi, 2)
            wave = 2 * np.pi / rng.uniform(*length)
            total += np.sin(wave * (x * np.cos(direction) + y * np.sin(direction)) + phase)
        return np.asarray(total / np.sqrt(count), np.float64)

    hills = waves(5, (4000.0, 11000.0))
    bumps = waves(4, (1500.0, 3000.0))
    outside = np.clip((radius - 1700.0) / 3500.0, 0.0, 1.0) ** 1.5
    if scene == "valley":
        rise = 0.10 * np.clip(radius - 4200.0, 0.0, None) + 330.0 * hills
    elif scene == "ridge":
        rise = 0.16 * np.clip(np.abs(y) - 3000.0, 0.0, None) - 0.05 * np.abs(x) + 380.0 * hills
    else:
        rise = -120.0 + 0.06 * np.clip(radius - 8000.0, 0.0, None) + 300.0 * hills
    return Terrain(np.asarray(outside * (rise + 60.0 * bumps) + 7.0 * bumps, np.float64))
