"""Characters stand on the ground that is drawn, walk, fall and sink."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gc25d_core.synth.motion import make_motion
from gc25d_core.synth.skeleton import SOLE_GAP, Pose, pose_capsules
from gc25d_core.synth.terrain import SCENES, make_terrain

TERRAIN = make_terrain("valley", np.random.default_rng(2))
POSE = Pose(x=500.0, y=-320.0, yaw=0.7, phase=1.0, stride=0.8, strike=0.4)


def _clearance(capsules, terrain) -> float:
    ends = np.concatenate([capsules.a, capsules.b])
    radius = np.concatenate([capsules.radius, capsules.radius])
    return float((ends[:, 2] - radius - terrain.at(ends[:, 0], ends[:, 1])).min())


@pytest.mark.parametrize("owner", ["player", "boss"])
@pytest.mark.parametrize("phase", [0.0, 1.3, 3.0, 5.5])
def test_the_lowest_point_is_just_over_the_ground(owner: str, phase: float) -> None:
    capsules = pose_capsules(owner, replace(POSE, phase=phase), TERRAIN)
    assert _clearance(capsules, TERRAIN) == pytest.approx(SOLE_GAP, abs=1e-9)


def test_sunk_goes_straight_down_by_that_much() -> None:
    up, down = (pose_capsules("player", replace(POSE, sunk=sunk), TERRAIN) for sunk in (0.0, 420.0))
    np.testing.assert_allclose(up.a - down.a, np.broadcast_to([0, 0, 420.0], up.a.shape), atol=1e-9)


def test_the_head_is_up_when_standing_and_down_when_fallen() -> None:
    def head_height(pose: Pose) -> float:
        capsules = pose_capsules("player", pose, TERRAIN)
        return float(capsules.a[capsules.part.index("head"), 2] - TERRAIN.at(pose.x, pose.y))

    assert 130 < head_height(POSE) < 190
    assert head_height(replace(POSE, fallen=1.0)) < 60


def test_legs_swing_in_opposite_phase() -> None:
    one, two = (
        pose_capsules("player", replace(POSE, yaw=0.0, phase=phase), TERRAIN) for phase in (0.5 * np.pi, 1.5 * np.pi)
    )
    legs = [i for i, part in enumerate(one.part) if part == "legs"]
    left, right = legs[:3], legs[3:]
    np.testing.assert_allclose(one.b[left[0], 0], two.b[right[0], 0], atol=1e-9)
    assert one.b[left[1], 0] - one.b[right[1], 0] > 25, "the feet are apart"


def test_the_unarmed_have_no_weapon_and_the_boss_is_larger() -> None:
    assert "weapon" not in pose_capsules("player", replace(POSE, armed=False), TERRAIN).part
    boss = pose_capsules("boss", replace(POSE, scale=1.75), TERRAIN)
    assert boss.radius.max() > 1.7 * pose_capsules("player", POSE, TERRAIN).radius.max()
    assert (boss.a == boss.b).all(axis=1).any(), "its head is a sphere"


@pytest.mark.parametrize("scene", [name for _, name in SCENES])
def test_height_at_a_point_is_that_of_the_drawn_triangles(scene: str) -> None:
    terrain = make_terrain(scene, np.random.default_rng(4))
    mesh = terrain.mesh()
    weights = np.random.default_rng(5).dirichlet([1, 1, 1], size=len(mesh.triangles))
    points = np.einsum("tc,tcd->td", weights, mesh.vertices[mesh.triangles])
    np.testing.assert_allclose(terrain.at(points[:, 0], points[:, 1]), points[:, 2], atol=1e-6)
    assert (mesh.normals()[:, 2] > 0).all()


@pytest.mark.parametrize("family", ["v10", "v9"])
def test_player_moves_smoothly_and_the_camera_keeps_it_in_view(family: str) -> None:
    motion = make_motion(family, np.random.default_rng(6))
    terrain = make_terrain("ridge", np.random.default_rng(7))
    places = np.array([[motion.player(f).x, motion.player(f).y] for f in range(999_900, 1_000_050)])
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert steps.min() > 1.0 and steps.max() < 20.0
    for frame in range(0, 400, 50):
        pose = motion.player(frame)
        camera = motion.camera(frame, variant="orbit_far", size=(640, 360), terrain=terrain)
        x, y, z, _ = camera.world_to_camera @ [pose.x, pose.y, float(terrain.at(pose.x, pose.y)) + 90, 1]
        fx, fy, cx, cy = camera.intrinsics
        assert z > 200 and 100 < fx * x / z + cx < 540 and 90 < fy * y / z + cy < 300
