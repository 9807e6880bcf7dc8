"""Where the player, the boss and the camera are at a frame: closed formulas, so that any frame can be made alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gc25d_core.synth.layout import Ring
from gc25d_core.synth.mesh import F64
from gc25d_core.synth.skeleton import Pose
from gc25d_core.synth.terrain import Terrain

#: Camera variants: distance factor, sideways angle (radians, over which shoulder), height over the player's feet (cm).
CAMERA_VARIANTS = {
    "shoulder_right": (1.0, 0.42, 165.0),
    "shoulder_left": (1.0, -0.42, 165.0),
    "orbit_far": (1.18, 0.34, 215.0),
    "orbit_low": (0.95, -0.36, 120.0),
}


@dataclass(frozen=True)
class Camera:
    """A pinhole camera: `intrinsics` float64 [4] (fx, fy, cx, cy in px), `world_to_camera` float64 [4, 4]."""

    intrinsics: F64
    world_to_camera: F64

    def as_json(self) -> dict[str, object]:
        """The `camera` object of a frame's json."""
        named = dict(zip(("fx", "fy", "cx", "cy"), self.intrinsics.tolist(), strict=True))
        return {**named, "world_to_camera": self.world_to_camera.tolist()}

    def position(self) -> F64:
        """The camera's centre in the world, float64 [3], cm."""
        rotation, shift = self.world_to_camera[:3, :3], self.world_to_camera[:3, 3]
        return np.asarray(-rotation.T @ shift, np.float64)


def look_at(eye: F64, target: F64) -> F64:
    """world_to_camera [4, 4] of a level camera: x right, y down, z forward, world z up."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, np.array([0.0, 0.0, 1.0]))
    right /= np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    matrix[:3, 3] = -rotation @ eye
    return matrix


@dataclass(frozen=True)
class Motion:
    """The motion of one run. Lengths in cm, angles in radians, rates per frame.

    The player walks `ring.path` around the origin at `speed` cm a frame (`direction` +1 or -1), the boss stays near
    the origin; `phases` float64 [6] sets the slow swings apart from those of other runs.
    """

    family: str
    ring: Ring
    speed: float
    direction: int
    start_angle: float
    phases: tuple[float, ...]

    def player_angle(self, frame: int) -> float:
        """The player's place on the circle."""
        rate = self.speed / self.ring.path
        return self.start_angle + self.direction * (rate * frame + 10 * rate * np.sin(0.05 * frame + self.phases[0]))

    def player(self, frame: int) -> Pose:
        """The player upright, walking along the circle, the weapon now and then raised or put away."""
        angle = self.player_angle(frame)
        radius = self.ring.path + 45.0 * np.sin(0.021 * frame + self.phases[1])
        pace = 1.0 + 0.5 * np.cos(0.05 * frame + self.phases[0])
        walked = self.ring.path * abs(angle - self.start_angle)
        strike = max(0.0, np.sin(0.13 * frame + self.phases[2])) ** 3
        return Pose(
            x=float(radius * np.cos(angle)),
            y=float(radius * np.sin(angle)),
            yaw=float(angle + self.direction * (np.pi / 2 + 0.5)),
            phase=float(walked * 2 * np.pi / 150.0),
            stride=float(min(1.0, 0.11 * self.speed * pace)),
            strike=float(1.4 * strike),
            armed=(frame // 60) % 5 != 4,
        )

    def boss(self, frame: int) -> Pose:
        """The boss, 1.75 times as large, faces the player, sways about the origin and swings its weapon."""
        x = 130.0 * np.sin(0.016 * frame + self.phases[3])
        y = 130.0 * np.cos(0.013 * frame + self.phases[4])
        player = self.player(frame)
        return Pose(
            x=float(x),
            y=float(y),
            yaw=float(np.arctan2(player.y - y, player.x - x)),
            phase=0.11 * frame,
            stride=0.5,
            strike=float(1.5 * np.sin(0.09 * frame + self.phases[5])),
            scale=1.75,
        )

    def camera(self, frame: int, *, variant: str, size: tuple[int, int], terrain: Terrain) -> Camera:
        """The camera behind the player, who stands between it and the boss, a little to one side.

        `size` is (W, H) in px. The principal point is off the middle, so that an error in a crop or a scale shows.
        """
        reach, side, height = CAMERA_VARIANTS[variant]
        width, tall = size
        player, boss = self.player(frame), self.boss(frame)
        feet = np.array([player.x, player.y, float(terrain.at(player.x, player.y))])
        away = np.arctan2(player.y - boss.y, player.x - boss.x)
        angle = away + side + 0.12 * np.sin(0.017 * frame + self.phases[5])
        distance = self.ring.camera * reach
        eye = feet + np.array([distance * np.cos(angle), distance * np.sin(angle), height])
        eye[2] = max(eye[2], float(terrain.at(eye[0], eye[1])) + 60.0)
        target = feet + np.array([-110.0 * np.cos(away), -110.0 * np.sin(away), 88.0])
        focal = 0.95 * tall
        stretch = 1.0 if self.family == "v10" else 1.01
        intrinsics = np.array([focal * stretch, focal, 0.503 * width, 0.492 * tall])
        return Camera(intrinsics, look_at(eye, target))


def make_motion(family: str, rng: np.random.Generator) -> Motion:
    """v10 walks slowly with a calm camera, v9 jogs."""
    calm = family == "v10"
    return Motion(
        family=family,
        ring=Ring(path=float(rng.uniform(640, 780)), camera=float(rng.uniform(300, 345))),
        speed=float(rng.uniform(4.5, 6.0) if calm else rng.uniform(8.5, 10.5)),
        direction=1 if rng.uniform() < 0.5 else -1,
        start_angle=float(rng.uniform(0, 2 * np.pi)),
        phases=tuple(rng.uniform(0, 2 * np.pi, 6).tolist()),
    )
