"""From the rasteriser's buffers to a picture and an id map: textures and smooth light for v10, flat facets for v9.

Colours follow the world (or the limb), not the image, so that they stay put while the camera moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gc25d_core.classes import BOSS, PLAYER
from gc25d_core.synth.layout import GROUND, WATER, StaticScene
from gc25d_core.synth.look import Look
from gc25d_core.synth.mesh import CAPSULE_TRIANGLES, F64
from gc25d_core.synth.motion import Camera
from gc25d_core.synth.skeleton import Capsules
from gc25d_core.synth.terrain import CELL, CELLS, ORIGIN

_TRIANGLES_PER_CAPSULE = len(CAPSULE_TRIANGLES)
_GROUND, _WATER = GROUND, WATER

_OUTFIT = {
    "player": {"head": (0.82, 0.64, 0.52), "torso": (0.24, 0.36, 0.62), "arms": (0.78, 0.74, 0.66),
               "legs": (0.36, 0.29, 0.24), "weapon": (0.86, 0.88, 0.92)},
    "boss": {"head": (0.78, 0.70, 0.60), "torso": (0.46, 0.14, 0.16), "arms": (0.36, 0.24, 0.30),
             "legs": (0.24, 0.19, 0.24), "weapon": (0.90, 0.60, 0.26)},
}  # fmt: skip


@dataclass(frozen=True)
class Palette:
    """Colour of each capsule, float64 [N, 3], and its owner's id, uint8 [N]."""

    color: F64
    owner: NDArray[np.uint8]


def dress(characters: list[Capsules], tint: F64) -> Palette:
    """Outfits by body part, multiplied by the run's `tint` float64 [3]."""
    color = [np.array(_OUTFIT[c.owner][part]) * tint for c in characters for part in c.part]
    owner = [PLAYER if c.owner == "player" else BOSS for c in characters for _ in c.part]
    return Palette(np.clip(np.array(color).reshape(-1, 3), 0, 1), np.array(owner, np.uint8))


@njit(cache=True, nogil=True)
def _lattice(i, j, k):  # type: ignore[no-untyped-def]
    h = (i * 374761393 + j * 668265263 + k * 1274126177) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 1103515245) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) & 0xFFFF) / 32767.5 - 1.0


@njit(cache=True, nogil=True)
def noise3(x, y, z):  # type: ignore[no-untyped-def]
    """Smooth value noise in -1..1 with one lattice cell a unit."""
    fx, fy, fz = np.floor(x), np.floor(y), np.floor(z)
    i, j, k = int(fx), int(fy), int(fz)
    u, v, w = x - fx, y - fy, z - fz
    u, v, w = u * u * (3 - 2 * u), v * v * (3 - 2 * v), w * w * (3 - 2 * w)
    a = _lattice(i, j, k) * (1 - u) + _lattice(i + 1, j, k) * u
    b = _lattice(i, j + 1, k) * (1 - u) + _lattice(i + 1, j + 1, k) * u
    c = _lattice(i, j, k + 1) * (1 - u) + _lattice(i + 1, j, k + 1) * u
    d = _lattice(i, j + 1, k + 1) * (1 - u) + _lattice(i + 1, j + 1, k + 1) * u
    return (a * (1 - v) + b * v) * (1 - w) + (c * (1 - v) + d * v) * w


@njit(cache=True, nogil=True)
def noise2(x, y, k):  # type: ignore[no-untyped-def]
    """The plane z = k of `noise3`, at half its cost."""
    fx, fy = np.floor(x), np.floor(y)
    i, j = int(fx), int(fy)
    u, v = x - fx, y - fy
    u, v = u * u * (3 - 2 * u), v * v * (3 - 2 * v)
    a = _lattice(i, j, k) * (1 - u) + _lattice(i + 1, j, k) * u
    b = _lattice(i, j + 1, k) * (1 - u) + _lattice(i + 1, j + 1, k) * u
    return a * (1 - v) + b * v


@njit(cache=True, nogil=True)
def _to_byte(value):  # type: ignore[no-untyped-def]
    """0..1 to 0..255 with a soft shoulder, so that bright ground keeps its texture."""
    if value > 0.75:
        value = 0.75 + 0.25 * (value - 0.75) / (value - 0.5)
    return np.uint8(max(0.0, value) * 255.0 + 0.5)


@njit(cache=True, nogil=True)
def _shade(  # type: ignore[no-untyped-def]
    triangle_index, inverse_depth, rotation, eye, intrinsics,
    static_class, color, normal, ground_normal, cell, origin, cells,
    capsule_a, capsule_b, capsule_radius, capsule_color, capsule_owner, per_capsule,
    patch, sun_direction, sun, ambient, sky_top, sky_horizon, fog_length, feet, textured,
    rgb, ids,
):  # fmt: skip
    height, width = triangle_index.shape
    static_count = static_class.shape[0]
    ray, at, n, base = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for j in range(height):
        for i in range(width):
            x = (i + 0.5 - intrinsics[2]) / intrinsics[0]
            y = (j + 0.5 - intrinsics[3]) / intrinsics[1]
            for r in range(3):
                ray[r] = rotation[0, r] * x + rotation[1, r] * y + rotation[2, r]
            t = triangle_index[j, i]
            if t < 0:
                up = ray[2] / np.sqrt(ray[0] ** 2 + ray[1] ** 2 + ray[2] ** 2)
                mix = min(1.0, max(0.0, up * 2.2)) ** 0.8
                cloud = 0.0
                if textured and up > 0.01:
                    s = 1.6 / (up + 0.25)
                    cx, cy = ray[0] * s, ray[1] * s
                    cloud = max(0.0, noise2(cx, cy, 1) + 0.5 * noise2(2 * cx, 2 * cy, 3)) * min(1.0, up * 5) * 0.45
                for r in range(3):
                    value = sky_horizon[r] * (1 - mix) + sky_top[r] * mix
                    value += cloud * (0.5 * (sun[r] + ambient[r]) + 0.3 - value)
                    rgb[j, i, r] = _to_byte(value)
                ids[j, i] = 0
                continue
            depth = 1.0 / inverse_depth[j, i]
            for r in range(3):
                at[r] = eye[r] + depth * ray[r]
            gloss = 0.0
            if t < static_count:
                kind = static_class[t]
                ids[j, i] = kind
                for r in range(3):
                    base[r] = color[t, r]
                    n[r] = normal[t, r]
                if kind == _GROUND:
                    spread = 0.5 + 0.5 * noise2(at[0] / 520, at[1] / 520, 7)
                    if textured:
                        gu = min(cells - 1e-6, max(0.0, (at[0] - origin) / cell))
                        gv = min(cells - 1e-6, max(0.0, (at[1] - origin) / cell))
                        gi, gj = int(gu), int(gv)
                        gu, gv = gu - gi, gv - gj
                        for r in range(3):
                            left = ground_normal[gi, gj, r] * (1 - gu) + ground_normal[gi + 1, gj, r] * gu
                            right = ground_normal[gi, gj + 1, r] * (1 - gu) + ground_normal[gi + 1, gj + 1, r] * gu
                            n[r] = left * (1 - gv) + right * gv
                    else:
                        spread = 1.0 if spread > 0.62 else 0.0
                    near = 0.0
                    for c in range(feet.shape[0]):
                        d2 = (at[0] - feet[c, 0]) ** 2 + (at[1] - feet[c, 1]) ** 2
                        if d2 < 9 * feet[c, 2] ** 2:
                            near = max(near, np.exp(-d2 / (2 * feet[c, 2] ** 2)))
                    for r in range(3):
                        base[r] = (base[r] * (1 - spread) + patch[r] * spread) * (1 - 0.42 * near)
                if textured:
                    fade = max(0.0, 1.0 - depth / 5000.0)
                    if kind in (_GROUND, _WATER):
                        grain = 0.10 * noise2(at[0] / 110, at[1] / 110, 11)
                        if fade > 0.0:
                            grain += 0.10 * fade * noise2(at[0] / 34, at[1] / 34, 13)
                    else:
                        grain = 0.10 * noise3(at[0] / 110, at[1] / 110, at[2] / 110)
                        grain += 0.10 * fade * noise3(at[0] / 34, at[1] / 34, at[2] / 34)
                    for r in range(3):
                        base[r] *= 1.0 + grain
            else:
                c = (t - static_count) // per_capsule
                ids[j, i] = capsule_owner[c]
                length2, dot = 0.0, 0.0
                for r in range(3):
                    edge = capsule_b[c, r] - capsule_a[c, r]
                    length2 += edge * edge
                    dot += edge * (at[r] - capsule_a[c, r])
                along = 0.0
                if length2 > 0.0:
                    along = min(1.0, max(0.0, dot / length2))
                size = 0.0
                for r in range(3):
                    n[r] = at[r] - capsule_a[c, r] - along * (capsule_b[c, r] - capsule_a[c, r])
                    size += n[r] * n[r]
                size = np.sqrt(size)
                for r in range(3):
                    n[r] /= size
                    base[r] = capsule_color[c, r]
                if textured:
                    band = np.cos(along * np.sqrt(length2) / capsule_radius[c] * 2.6)
                    for r in range(3):
                        base[r] *= 1.0 + 0.13 * band
                    gloss = 0.12
            light = n[0] * sun_direction[0] + n[1] * sun_direction[1] + n[2] * sun_direction[2]
            light = max(0.0, light)
            if not textured:
                light = np.floor(light * 4.0 + 0.5) / 4.0
            sky_light = 0.8 + 0.2 * n[2]
            fog = 1.0 - np.exp(-depth / fog_length)
            for r in range(3):
                value = 1.25 * base[r] * (sun[r] * light + ambient[r] * sky_light) + gloss * light**3 * sun[r]
                value = value * (1 - fog) + sky_horizon[r] * fog
                rgb[j, i, r] = _to_byte(value)


def shade(
    buffers: tuple[NDArray[np.int32], F64],
    *,
    camera: Camera,
    scene: StaticScene,
    characters: list[Capsules],
    shadows: F64,
    palette: Palette,
    look: Look,
    sun_azimuth: float,
    textured: bool,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Picture uint8 [H, W, 3] (RGB) and raw ids uint8 [H, W] from (triangle index, inverse depth) [H, W].

    Triangle indices below the scene's count are the scene's, the others those of the capsules in order.
    `shadows` float64 [S, 3] are dark spots on the ground: x, y and size, cm.
    """
    triangle_index, inverse_depth = buffers
    light = look.lighting
    elevation = np.radians(light.elevation)
    direction = np.array(
        [np.cos(elevation) * np.cos(sun_azimuth), np.cos(elevation) * np.sin(sun_azimuth), np.sin(elevation)]
    )
    empty = np.zeros((0, 3))
    a = np.concatenate([empty, *(c.a for c in characters)])
    b = np.concatenate([empty, *(c.b for c in characters)])
    radius = np.concatenate([np.zeros(0), *(c.radius for c in characters)])
    rgb = np.empty((*triangle_index.shape, 3), np.uint8)
    ids = np.empty(triangle_index.shape, np.uint8)
    _shade(
        triangle_index, inverse_depth, camera.world_to_camera[:3, :3].copy(), camera.position(), camera.intrinsics,
        scene.static_class, scene.color, scene.normal, scene.ground_normal, CELL, ORIGIN, CELLS,
        a, b, radius, palette.color, palette.owner, _TRIANGLES_PER_CAPSULE,
        np.array(look.biome.ground_patch), direction, np.array(light.sun), np.array(light.ambient),
        np.array(light.sky_top), np.array(light.sky_horizon), light.fog_length, shadows, textured,
        rgb, ids,
    )  # fmt: skip
    return rgb, ids
