"""The pinhole camera of one frame: world centimetres (z up) to source pixels and back to rays.

Camera axes: x right, y down, z forward. Pixel (column i, row j) has its centre at (i + 0.5, j + 0.5).
`world_to_camera` takes a column vector: x_cam = A x_world + t. A is inverted rather than transposed, so a mirrored world
(det A = -1) or a scaled one needs no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_LAST_ROW = (0.0, 0.0, 0.0, 1.0)
_MAX_CONDITION = 1e9
"""Above it float64 cannot invert the rotation part to the accuracy that pixels need."""


@dataclass(frozen=True, eq=False)
class Camera:
    """Intrinsics in source pixels and pose of one frame.

    Raises:
        ValueError: a number is not finite, fx or fy is not > 0, the matrix is not 4x4, its last row is not 0 0 0 1, or
            its rotation part is singular. One message names every mistake with got and expected.
    """

    fx: float
    """Focal length, pixels at source size, > 0."""
    fy: float
    cx: float
    """Principal point, pixels at source size."""
    cy: float
    world_to_camera: np.ndarray
    """float64 [4,4], row-major, read-only; built from any nested sequence of 16 numbers."""

    def __post_init__(self) -> None:
        for name in ("fx", "fy", "cx", "cy"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "world_to_camera", check_pose(self.world_to_camera))
        mistakes = [
            f"{name}: got {getattr(self, name)}, expected a finite number{' > 0' if name[0] == 'f' else ''}"
            for name in ("fx", "fy", "cx", "cy")
            if not np.isfinite(getattr(self, name)) or (name[0] == "f" and getattr(self, name) <= 0)
        ]
        if mistakes:
            raise ValueError("camera " + "; ".join(mistakes))

    @property
    def intrinsics(self) -> tuple[float, float, float, float]:
        """(fx, fy, cx, cy) in source pixels: the arguments of `Geometry.intrinsics`."""
        return self.fx, self.fy, self.cx, self.cy

    @cached_property
    def camera_to_world_axes(self) -> np.ndarray:
        """Inverse of the rotation part, float64 [3,3]: camera directions to world directions."""
        return np.linalg.inv(self.world_to_camera[:3, :3])

    @cached_property
    def centre(self) -> np.ndarray:
        """World position of the camera, float64 [3], cm."""
        return -self.camera_to_world_axes @ self.world_to_camera[:3, 3]

    def project(self, points: np.ndarray | Sequence[Sequence[float]]) -> np.ndarray:
        """World points [..., 3] (cm) to source pixels and depth, float64 [..., 3] = (u, v, z).

        u and v are NaN where the point is not in front of the camera (z <= 0); z is cm along the forward axis.
        """
        world = np.asarray(points, np.float64)
        cam = world @ self.world_to_camera[:3, :3].T + self.world_to_camera[:3, 3]
        z = cam[..., 2]
        safe = np.where(z > 0, z, np.nan)
        return np.stack([self.fx * cam[..., 0] / safe + self.cx, self.fy * cam[..., 1] / safe + self.cy, z], axis=-1)

    def rays(self, u: np.ndarray | float, v: np.ndarray | float) -> np.ndarray:
        """World directions through source pixel coordinates, unit vectors float64 [..., 3]. They start at `centre`.

        `u` and `v` broadcast against each other; the centre of pixel (i, j) is u = i + 0.5, v = j + 0.5.
        """
        x = (np.asarray(u, np.float64) - self.cx) / self.fx
        y = (np.asarray(v, np.float64) - self.cy) / self.fy
        x, y = np.broadcast_arrays(x, y)
        world = np.stack([x, y, np.ones_like(x)], axis=-1) @ self.camera_to_world_axes.T
        return world / np.linalg.norm(world, axis=-1, keepdims=True)


def check_pose(matrix: np.ndarray | Sequence[Sequence[float]]) -> np.ndarray:
    """`matrix` as a read-only float64 [4,4] world_to_camera, or ValueError with got and expected."""
    try:
        pose = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"world_to_camera: got {matrix!r}, expected 4 rows of 4 numbers") from e
    if pose.shape != (4, 4):
        raise ValueError(f"world_to_camera: got shape {pose.shape}, expected (4, 4)")
    if not np.isfinite(pose).all():
        raise ValueError(f"world_to_camera: got {pose.tolist()}, expected finite numbers only")
    if tuple(pose[3]) != _LAST_ROW:
        raise ValueError(
            f"world_to_camera: got last row {pose[3].tolist()}, expected [0, 0, 0, 1] "
            "(row-major, translation in the last column)"
        )
    condition = float(np.linalg.cond(pose[:3, :3]))
    if not condition < _MAX_CONDITION:
        raise ValueError(
            f"world_to_camera: got a rotation part {pose[:3, :3].tolist()} of condition number {condition:.3g}, "
            "expected an invertible one (1 for a rotation or a reflection)"
        )
    pose.setflags(write=False)
    return pose
