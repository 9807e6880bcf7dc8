"""Characters as capsule skeletons: a walk cycle, arm swings, weapon strokes and a fall.

Local axes: x forward, y left, z up, centimetres, origin between the feet. Lengths are those of a person of 1.8 m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gc25d_core.synth.mesh import F64
from gc25d_core.synth.terrain import Terrain

#: Gap kept between the lowest capsule point and the ground (cm), so that the ground never covers the soles.
SOLE_GAP = 1.0


@dataclass(frozen=True)
class Capsules:
    """N capsules of one character: `part` names, `a`, `b` float64 [N, 3] world cm, `radius` float64 [N] cm."""

    owner: str
    part: tuple[str, ...]
    a: F64
    b: F64
    radius: F64

    def as_json(self) -> list[dict[str, object]]:
        """The entries of a frame's `capsules` list."""
        rows = zip(self.part, self.a.tolist(), self.b.tolist(), self.radius.tolist(), strict=True)
        return [{"owner": self.owner, "part": part, "a": a, "b": b, "radius": r} for part, a, b, r in rows]


@dataclass(frozen=True)
class Pose:
    """Where and how a character stands. `phase` of the walk in radians, `stride` 0 (stands) to 1 (runs), `strike` -1..1
    lifts the weapon arm, `fallen` 0 (upright) to 1 (lies), `sunk` cm below the ground, `scale` 1 for 1.8 m."""

    x: float
    y: float
    yaw: float
    phase: float
    stride: float
    strike: float
    fallen: float = 0.0
    sunk: float = 0.0
    scale: float = 1.0
    armed: bool = True


def _limb(start: F64, *, pitch: float, length: float, side: float = 0.0) -> F64:
    """End of a limb that hangs down from `start`: pitched forward by `pitch`, spread sideways by `side` (radians)."""
    down = np.array([np.sin(pitch) * np.cos(side), np.sin(side), -np.cos(pitch) * np.cos(side)])
    return np.asarray(start + length * down, np.float64)


def _local_capsules(pose: Pose) -> list[tuple[str, F64, F64, float]]:
    swing = 0.55 * pose.stride
    lean = 4.0 + 9.0 * pose.stride
    pelvis = np.array([0.0, 0.0, 90.0])
    chest = pelvis + np.array([lean, 0.0, 44.0])
    neck = chest + np.array([0.3 * lean, 0.0, 22.0])
    parts = [
        ("head", neck, neck + np.array([2.0, 0.0, 7.0]), 10.5),
        ("torso", pelvis + np.array([0.0, 0.0, 6.0]), chest, 14.5),
        ("torso", chest + np.array([0.0, 13.0, 4.0]), chest + np.array([0.0, -13.0, 4.0]), 9.5),
    ]
    for side in (1.0, -1.0):
        leg = swing * np.sin(pose.phase + (0.0 if side > 0 else np.pi))
        bend = 0.12 + 0.75 * pose.stride * max(0.0, np.cos(pose.phase + (0.0 if side > 0 else np.pi)))
        hip = pelvis + np.array([0.0, 9.0 * side, 0.0])
        knee = _limb(hip, pitch=leg + 0.1, length=42.0)
        ankle = _limb(knee, pitch=leg + 0.1 - bend, length=40.0)
        toe = ankle + 15.0 * np.array([np.cos(0.3 * leg), 0.1 * side, np.sin(0.3 * leg) - 0.15])
        parts += [("legs", hip, knee, 8.0), ("legs", knee, ankle, 6.2), ("legs", ankle, toe, 4.8)]

        armed = side < 0 and pose.armed
        shoulder = chest + np.array([0.0, 22.0 * side, 6.0])
        lift = 1.1 + 1.2 * pose.strike if armed else 0.15
        upper = lift - leg * (0.5 if armed else 1.0)
        elbow = _limb(shoulder, pitch=upper, length=28.0, side=0.28 * side)
        hand = _limb(elbow, pitch=upper + (0.5 if armed else 0.45), length=26.0, side=0.1 * side)
        parts += [("arms", shoulder, elbow, 5.4), ("arms", elbow, hand, 4.6)]
        if armed:
            tilt = upper + 1.7
            along = np.array([np.sin(tilt), 0.25 * side, -np.cos(tilt)])
            along /= np.linalg.norm(along)
            guard = hand + 10.0 * along
            parts.append(("weapon", hand - 10.0 * along, hand + 88.0 * along, 2.6))
            parts.append(("weapon", guard + np.array([0.0, 11.0, 0.0]), guard - np.array([0.0, 11.0, 0.0]), 2.4))
    return parts


def pose_capsules(owner: str, pose: Pose, terrain: Terrain) -> Capsules:
    """The character's capsules in the world, its lowest point `SOLE_GAP` over the ground (less `pose.sunk`).

    The boss gets a sphere for a head (a = b) and two horns.
    """
    parts = _local_capsules(pose)
    if owner == "boss":
        _, neck, _, _ = parts[0]
        head = neck + np.array([0.0, 0.0, 5.0])
        horns = [(np.array([2.0, 8.0 * side, 7.0]), np.array([6.0, 19.0 * side, 19.0])) for side in (1, -1)]
        horned = [("head", head + root, head + tip, 3.0) for root, tip in horns]
        parts = [("head", head, head.copy(), 13.0), *horned, *parts[1:]]
    a = np.array([p[1] for p in parts]) * pose.scale
    b = np.array([p[2] for p in parts]) * pose.scale
    radius = np.array([p[3] for p in parts]) * pose.scale

    pitch = -1.5 * pose.fallen  # on the back, so that the weapon arm does not prop the body up
    cp, sp = np.cos(pitch), np.sin(pitch)
    cy, sy = np.cos(pose.yaw), np.sin(pose.yaw)
    fall = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    turn = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]]) @ fall
    a, b = a @ turn.T, b @ turn.T
    for ends in (a, b):
        ends[:, 0] += pose.x
        ends[:, 1] += pose.y
    both = np.concatenate([a, b])
    clearance = both[:, 2] - np.concatenate([radius, radius]) - terrain.at(both[:, 0], both[:, 1])
    shift = SOLE_GAP - float(clearance.min()) - pose.sunk
    a[:, 2] += shift
    b[:, 2] += shift
    return Capsules(owner, tuple(p[0] for p in parts), a, b, radius)
