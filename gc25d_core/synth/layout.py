"""The still part of a scene: terrain, water, plants, rocks, buildings, props and, for v9, what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gc25d_core.synth.look import Look, Rgb
from gc25d_core.synth.mesh import F64, I32, Mesh, ball, boulder, box, cone, cylinder
from gc25d_core.synth.terrain import ORIGIN, WATER_LEVEL, Terrain

SKY, GROUND, VEGETATION, ROCK, WATER, STRUCTURE, PROP = range(7)

_BARK: Rgb = (0.33, 0.25, 0.18)
_STONE: Rgb = (0.62, 0.59, 0.53)
_ROOF: Rgb = (0.52, 0.28, 0.22)
_WOOD: Rgb = (0.55, 0.40, 0.24)
_CLOTH: tuple[Rgb, ...] = ((0.70, 0.22, 0.20), (0.22, 0.38, 0.62), (0.78, 0.64, 0.26))


@dataclass(frozen=True)
class StaticScene:
    """Everything that does not move, for one look.

    `vertices` float64 [V, 3] world cm, `triangles` int32 [T, 3], per triangle `static_class` uint8 [T] (0..6),
    `color` float32 [T, 3] sRGB 0..1, `normal` float32 [T, 3]; `ground_normal` float32 [G, G, 3], smooth.
    """

    vertices: F64
    triangles: I32
    static_class: NDArray[np.uint8]
    color: NDArray[np.float32]
    normal: NDArray[np.float32]
    ground_normal: NDArray[np.float32]


@dataclass(frozen=True)
class Ring:
    """The player walks a circle of radius `path` (cm) about the origin, the camera `camera` cm outside of it."""

    path: float
    camera: float


class _Builder:
    def __init__(self, terrain: Terrain, rng: np.random.Generator) -> None:
        self.terrain, self.rng = terrain, rng
        self.meshes: list[tuple[Mesh, int, F64]] = []

    def add(self, mesh: Mesh, static_class: int, color: Rgb, *, vary: float = 0.06) -> None:
        shade = np.clip(np.array(color) * (1 + self.rng.uniform(-vary, vary)), 0, 1)
        self.meshes.append((mesh, static_class, np.asarray(shade, np.float64)))

    def spot(self, near: float, far: float) -> tuple[float, float, float]:
        """A random place between two radii (cm), thinning out outwards, its height on the ground."""
        radius = near + (far - near) * self.rng.uniform() ** 1.6
        angle = self.rng.uniform(0, 2 * np.pi)
        x, y = float(radius * np.cos(angle)), float(radius * np.sin(angle))
        return x, y, float(self.terrain.at(x, y))

    def tree(self, at: tuple[float, float, float], look: Look, size: float) -> None:
        x, y, z = at
        yaw = float(self.rng.uniform(0, 6.28))
        trunk = cylinder(7, top=0.6).moved(scale=(22 * size, 22 * size, 260 * size), yaw=yaw, at=(x, y, z - 10))
        self.add(trunk, VEGETATION, _BARK)
        if look.biome.conifers:
            for level in range(3):
                reach = (150 - 38 * level) * size
                top = cone(9).moved(
                    scale=(reach, reach, 210 * size), yaw=yaw + level, at=(x, y, z + (120 + 130 * level) * size)
                )
                self.add(top, VEGETATION, look.biome.foliage)
        else:
            for dx, dz, reach in ((0.0, 330.0, 150.0), (80.0, 270.0, 105.0), (-75.0, 290.0, 110.0)):
                at_crown = (x + dx * size * np.cos(yaw), y + dx * size * np.sin(yaw), z + dz * size)
                crown = ball(9, 6).moved(scale=(reach * size, reach * size, reach * 0.8 * size), yaw=yaw, at=at_crown)
                self.add(crown, VEGETATION, look.biome.foliage, vary=0.12)

    def bush(self, at: tuple[float, float, float], look: Look) -> None:
        size = float(self.rng.uniform(35, 80))
        self.add(
            ball(9, 6).moved(scale=(size, size, size * 0.7), yaw=size, at=at), VEGETATION, look.biome.foliage, vary=0.2
        )

    def rock(self, at: tuple[float, float, float], look: Look, reach: tuple[float, float]) -> None:
        size = float(self.rng.uniform(*reach))
        scale = (size, size * float(self.rng.uniform(0.6, 1.1)), size * float(self.rng.uniform(0.5, 1.0)))
        self.add(
            boulder(self.rng).moved(scale=scale, yaw=float(self.rng.uniform(0, 6.28)), at=at), ROCK, look.biome.rock
        )

    def column(self, at: tuple[float, float, float], height: float, radius: float = 34.0) -> None:
        x, y, z = at
        self.add(box().moved(scale=(radius * 1.4, radius * 1.4, 40), yaw=0.3, at=(x, y, z - 15)), STRUCTURE, _STONE)
        self.add(cylinder(12, top=0.85).moved(scale=(radius, radius, height), yaw=0.0, at=(x, y, z)), STRUCTURE, _STONE)
        self.add(box().moved(scale=(radius * 1.3, radius * 1.3, 30), yaw=0.3, at=(x, y, z + height)), STRUCTURE, _STONE)

    def hut(self, at: tuple[float, float, float]) -> None:
        x, y, z = at
        yaw = float(self.rng.uniform(0, 6.28))
        size = float(self.rng.uniform(180, 320))
        self.add(box().moved(scale=(size, size * 0.8, size * 1.1), yaw=yaw, at=(x, y, z - 40)), STRUCTURE, _STONE)
        roof = cone(4).moved(
            scale=(size * 1.6, size * 1.4, size * 0.9), yaw=yaw + np.pi / 4, at=(x, y, z + size * 1.1 - 45)
        )
        self.add(roof, STRUCTURE, _ROOF)

    def crate(self, at: tuple[float, float, float], size: float) -> None:
        x, y, z = at
        color = _WOOD if self.rng.uniform() < 0.6 else _CLOTH[int(self.rng.integers(len(_CLOTH)))]
        if self.rng.uniform() < 0.5:
            mesh = box().moved(scale=(size, size, 2 * size), yaw=float(self.rng.uniform(0, 6.28)), at=(x, y, z - 4))
        else:
            mesh = cylinder(10, top=0.9).moved(scale=(size, size, 2.4 * size), yaw=0.0, at=(x, y, z - 4))
        self.add(mesh, PROP, color)


def _water(builder: _Builder, look: Look) -> None:
    reach = -ORIGIN
    sheet = box().moved(scale=(reach, reach, 1.0), yaw=0.0, at=(0.0, 0.0, WATER_LEVEL - 1.0))
    builder.add(Mesh(sheet.vertices, sheet.triangles[2:4]), WATER, look.biome.water, vary=0.0)


def _occluders(builder: _Builder, look: Look, ring: Ring) -> None:
    """Pillars, trunks and stacks between path and camera: each hides a part of the player for some frames."""
    count = 13
    for index in range(count):
        angle = 2 * np.pi * (index + builder.rng.uniform(-0.3, 0.3)) / count
        radius = ring.path + builder.rng.uniform(0.35, 0.50) * ring.camera
        x, y = float(radius * np.cos(angle)), float(radius * np.sin(angle))
        at = (x, y, float(builder.terrain.at(x, y)))
        kind = index % 3
        if kind == 0:
            builder.column(at, 330.0, radius=17.0)
        elif kind == 1:
            trunk = cylinder(8, top=0.8).moved(scale=(16.0, 16.0, 420.0), yaw=0.0, at=(x, y, at[2] - 10))
            builder.add(trunk, VEGETATION, _BARK)
        else:
            builder.crate(at, 30.0)


def make_static_scene(
    terrain: Terrain, look: Look, *, ring: Ring, occluders: bool, rng: np.random.Generator
) -> StaticScene:
    """Places everything for a look. Where things stand depends on `rng` and on the biome's counts.

    Nothing is put where the player, the boss or the camera walk, except the occluders.
    """
    biome = look.biome
    builder = _Builder(terrain, rng)
    clear = ring.path + ring.camera + 380.0
    builder.add(terrain.mesh(), GROUND, biome.ground, vary=0.0)
    if biome.wet:
        _water(builder, look)
    for _ in range(biome.trees):
        builder.tree(builder.spot(clear, 9000.0), look, float(rng.uniform(0.8, 1.7)))
    for _ in range(biome.bushes):
        builder.bush(builder.spot(clear - 120.0, 5200.0), look)
    for _ in range(biome.rocks):
        builder.rock(builder.spot(clear, 7000.0), look, (50.0, 330.0))
    for _ in range(9):
        builder.column(builder.spot(clear, 3200.0), float(rng.uniform(160, 520)))
    for _ in range(6):
        builder.hut(builder.spot(clear + 500.0, 5200.0))
    for _ in range(20):
        builder.crate(builder.spot(clear - 150.0, 2600.0), float(rng.uniform(30, 60)))
    if occluders:
        _occluders(builder, look, ring)
    return _joined(builder, terrain)


def _joined(builder: _Builder, terrain: Terrain) -> StaticScene:
    meshes = builder.meshes
    offsets = np.cumsum([0] + [len(m.vertices) for m, _, _ in meshes])
    counts = [len(m.triangles) for m, _, _ in meshes]
    return StaticScene(
        vertices=np.concatenate([m.vertices for m, _, _ in meshes]),
        triangles=np.concatenate([m.triangles + o for (m, _, _), o in zip(meshes, offsets, strict=False)]).astype(
            np.int32
        ),
        static_class=np.repeat(np.array([c for _, c, _ in meshes], np.uint8), counts),
        color=np.repeat(np.array([c for _, _, c in meshes], np.float32), counts, axis=0),
        normal=np.concatenate([m.normals() for m, _, _ in meshes]).astype(np.float32),
        ground_normal=terrain.vertex_normals(),
    )
