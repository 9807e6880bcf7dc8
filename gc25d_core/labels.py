"""Which body part a character's pixel shows: rays through source pixels against the frame's capsules.

Nearest resampling gives target pixel i the id of source pixel floor((i + 0.5) f), so the ray goes through the centre of THAT
source pixel. The target pixel's own centre lies up to 0.25 source pixels away (f = 1.5), which costs 1 to 4 % IoU at silhouettes.

`*_from_meta` cast the same rays from what `meta` stores: K at target resolution, and in target pixels
u = (floor((i + 0.5) f) + 0.5) / f.
"""

from __future__ import annotations

import numpy as np

from gc25d_core import capsule_kernels
from gc25d_core.camera import Camera, check_pose
from gc25d_core.capsules import Capsules
from gc25d_core.classes import BOSS, OWNERS, PLAYER
from gc25d_core.geometry import Geometry

_Rays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""us [W], vs [H], lens [4] (fx, fy, cx, cy in the pixels of us, vs), axes [3,3], camera centre [3]; all float64."""


class NoCapsules(Exception):
    """An image shows a character that has no capsule in that frame's metadata."""

    def __init__(self, owner: str, pixels: int) -> None:
        self.owner = owner
        self.pixels = pixels
        super().__init__(f"{pixels} pixels of the {owner} and no capsule of the {owner} in the frame's json")

    def __reduce__(self) -> tuple[type[NoCapsules], tuple[str, int]]:
        return NoCapsules, (self.owner, self.pixels)


def label_parts(ids: np.ndarray, camera: Camera, capsules: Capsules, geometry: Geometry) -> np.ndarray:
    """Part map of one frame: 10 and 11 become the ids of body parts, every other pixel keeps its id.

    A pixel takes the part of the first capsule of its own character that its ray hits (`capsules.first_hits`: a camera inside
    a capsule hits it at 0); if it hits none, of the capsule whose surface is nearest to the forward ray. Among capsules
    within 1e-6 cm of the best, the lowest index wins.

    Args:
        ids: uint8 [H,W] raw ids at target size, from `images.resample_ids`.

    Returns:
        uint8 [H,W], new; `collapse_parts` of it is `ids`.

    Raises:
        NoCapsules: a pixel shows a character without any capsule.
        ValueError: `ids` is not uint8 of the geometry's target size.
    """
    return _label(ids, _source_rays(camera, geometry), camera.world_to_camera, capsules, geometry)


def label_parts_from_meta(
    ids: np.ndarray, K: np.ndarray, world_to_camera: np.ndarray, rows: np.ndarray, geometry: Geometry
) -> np.ndarray:
    """`label_parts` from stored values: K float64 [3,3] at target size, pose [4,4], capsule rows float32 [N,8]."""
    pose = check_pose(world_to_camera)
    return _label(ids, _meta_rays(K, pose, geometry), pose, Capsules.from_rows(rows), geometry)


def render_capsules(camera: Camera, capsules: Capsules, geometry: Geometry) -> np.ndarray:
    """Part map from metadata alone, uint8 [H,W] at target size: first hit over both characters' capsules, 0 = none.

    Casts the rays of `label_parts`, with its rules for ties and for a camera inside a capsule.
    """
    return _render(_source_rays(camera, geometry), camera.world_to_camera, capsules, geometry)


def render_capsules_from_meta(
    K: np.ndarray, world_to_camera: np.ndarray, rows: np.ndarray, geometry: Geometry
) -> np.ndarray:
    """`render_capsules` from stored values: K float64 [3,3] at target size, pose [4,4], capsule rows float32 [N,8]."""
    pose = check_pose(world_to_camera)
    return _render(_meta_rays(K, pose, geometry), pose, Capsules.from_rows(rows), geometry)


def _source_rays(camera: Camera, geometry: Geometry) -> _Rays:
    lens = np.array(camera.intrinsics)
    return geometry.columns + 0.5, geometry.rows + 0.5, lens, camera.camera_to_world_axes, camera.centre


def _meta_rays(K: np.ndarray, world_to_camera: np.ndarray, geometry: Geometry) -> _Rays:
    f = float(geometry.factor)
    us = (geometry.columns - geometry.crop[0] + 0.5) / f
    vs = (geometry.rows - geometry.crop[1] + 0.5) / f
    target = Camera(K[0, 0], K[1, 1], K[0, 2], K[1, 2], world_to_camera)
    return us, vs, np.array(target.intrinsics), target.camera_to_world_axes, target.centre


def _label(ids: np.ndarray, rays: _Rays, pose: np.ndarray, capsules: Capsules, geometry: Geometry) -> np.ndarray:
    width, height = geometry.target
    if ids.dtype != np.uint8 or ids.shape != (height, width):
        raise ValueError(f"ids: got {ids.dtype} {ids.shape}, expected uint8 {(height, width)}")
    us, vs, lens, axes, centre = rays
    members = np.zeros((2, len(capsules)), np.int64)
    counts = np.zeros(2, np.int64)
    for o, owner in enumerate(OWNERS):
        mine = np.flatnonzero(capsules.owner_mask(owner))
        counts[o] = len(mine)
        members[o, : len(mine)] = mine
    out = np.array(ids, order="C")
    boxes = _boxes(us, vs, lens, pose, capsules)
    missing = capsule_kernels.label(out, us, vs, lens, axes, capsules.kernel_rows(centre), members, counts, boxes)
    for owner, pixels in zip(OWNERS, missing, strict=True):
        if pixels:
            raise NoCapsules(owner, int(pixels))
    return out


def _render(rays: _Rays, pose: np.ndarray, capsules: Capsules, geometry: Geometry) -> np.ndarray:
    width, height = geometry.target
    us, vs, lens, axes, centre = rays
    out = np.zeros((height, width), np.uint8)
    boxes = _boxes(us, vs, lens, pose, capsules)
    capsule_kernels.render(out, us, vs, lens, axes, capsules.kernel_rows(centre), boxes)
    return out


def _boxes(us: np.ndarray, vs: np.ndarray, lens: np.ndarray, pose: np.ndarray, capsules: Capsules) -> np.ndarray:
    """Target pixels outside which a capsule is not seen, int64 [N,4] = x0, y0, x1, y1, half open.

    A capsule in front of the camera projects into the hull of its two end spheres, and a sphere at (x, z) of the plane y = 0
    between the tangents of slope tan(atan2(x, z) -+ asin(r / |x z|)). One that reaches the camera's plane gets the whole
    image, one that lies behind it none.
    """
    n = len(capsules)
    ends = np.stack([capsules.a, capsules.b]) @ pose[:3, :3].T + pose[:3, 3]  # [2,N,3]
    radius = capsules.radius * np.linalg.norm(pose[:3, :3], 2) * (1 + 1e-9) + 1e-9
    depth = ends[..., 2]
    behind = (depth + radius < 0).all(axis=0)
    whole = ~behind & (depth - radius < 1e-6 * radius).any(axis=0)
    boxes = np.zeros((n, 4), np.int64)
    boxes[whole] = (0, 0, len(us), len(vs))
    seen = ~behind & ~whole
    for axis, at in ((0, us), (1, vs)):
        side = ends[:, seen, axis]
        angle = np.arctan2(side, depth[:, seen])
        half = np.arcsin(radius[seen] / np.hypot(side, depth[:, seen]))
        low = lens[axis] * np.tan(angle - half).min(axis=0) + lens[2 + axis]
        high = lens[axis] * np.tan(angle + half).max(axis=0) + lens[2 + axis]
        boxes[seen, axis] = np.maximum(np.searchsorted(at, low) - 1, 0)
        boxes[seen, 2 + axis] = np.minimum(np.searchsorted(at, high) + 1, len(at))
    return boxes


assert (PLAYER, BOSS) == (10, 11), "capsule_kernels.label knows the two character ids by value"
