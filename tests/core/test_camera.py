"""Cameras: hand-computed projections, rays that go back through what was projected, and poses that are refused."""

import numpy as np
import pytest

from gc25d_core.camera import Camera

# At (100, 0, 50), looking along world +x: camera x is world -y, camera y is world -z.
POSE = [[0, -1, 0, 0], [0, 0, -1, 50], [1, 0, 0, -100], [0, 0, 0, 1]]


def camera(pose=POSE):
    return Camera(700.0, 650.0, 640.0, 360.0, np.array(pose, float))


def test_projection_of_hand_computed_points():
    # (300, -20, 40): 200 ahead, 20 to the right, 10 below -> u = 640 + 700 * 0.1, v = 360 + 650 * 0.05
    uvz = camera().project([[300, -20, 40], [200, 0, 50], [110, 5, 53]])
    np.testing.assert_allclose(uvz, [[710, 392.5, 200], [640, 360, 100], [290, 165, 10]], atol=1e-9)


def test_a_point_that_is_not_in_front_has_no_pixel_but_a_depth():
    uvz = camera().project([[100, 3, 50], [0, 0, 50]])
    assert np.isnan(uvz[:, :2]).all()
    np.testing.assert_array_equal(uvz[:, 2], [0, -100])


def test_centre_is_the_point_the_pose_maps_to_the_origin():
    np.testing.assert_allclose(camera().centre, [100, 0, 50], atol=1e-12)


def test_ray_directions_of_hand_computed_pixels():
    rays = camera().rays([640, 640 + 700], [360, 360])
    np.testing.assert_allclose(rays, [[1, 0, 0], [0.5**0.5, -(0.5**0.5), 0]], atol=1e-15)


@pytest.mark.parametrize(
    "axes", [np.eye(3), np.diag([1, -1, 1.0]), 2.5 * np.eye(3)], ids=["as is", "mirrored", "scaled"]
)
def test_rays_pass_through_the_points_they_are_the_pixels_of(axes):
    rng = np.random.default_rng(3)
    pose = np.array(POSE, float)
    pose[:3] = axes @ np.linalg.qr(rng.normal(size=(3, 3)))[0] @ pose[:3]
    cam = camera(pose)
    points = cam.centre + 300 * rng.normal(size=(200, 3))
    points = points[cam.project(points)[:, 2] > 1]
    u, v, _ = cam.project(points).T
    rays = cam.rays(u, v)
    offset = points - cam.centre
    along = (offset * rays).sum(axis=1)
    assert len(points) > 50
    assert (along > 0).all()
    np.testing.assert_allclose(np.linalg.norm(rays, axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(offset, along[:, None] * rays, atol=1e-8)


def test_rays_broadcast_to_an_image():
    assert camera().rays(np.arange(5) + 0.5, (np.arange(3) + 0.5)[:, None]).shape == (3, 5, 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fx": 0.0}, "fx: got 0.0, expected a finite number > 0"),
        ({"fy": -1.0}, "fy: got -1.0, expected a finite number > 0"),
        ({"cx": float("nan")}, "cx: got nan, expected a finite number"),
        ({"fy": float("inf")}, "fy: got inf"),
        ({"world_to_camera": np.eye(3)}, r"got shape \(3, 3\), expected \(4, 4\)"),
        ({"world_to_camera": np.array(POSE, float).T}, "last row .*expected .0, 0, 0, 1."),
        ({"world_to_camera": np.diag([1, 1, 0, 1.0])}, "rotation part .*expected an invertible one"),
        ({"world_to_camera": np.diag([1, np.nan, 1, 1])}, "expected finite"),
        ({"world_to_camera": [[1, 2], [3]]}, "expected 4 rows of 4 numbers"),
    ],
)
def test_a_bad_camera_is_refused_with_got_and_expected(change, says):
    fields = {"fx": 700.0, "fy": 650.0, "cx": 640.0, "cy": 360.0, "world_to_camera": np.array(POSE, float)}
    with pytest.raises(ValueError, match=says):
        Camera(**(fields | change))


def test_all_bad_intrinsics_are_named_in_one_message():
    with pytest.raises(ValueError, match=r"fx: got 0.0.*cy: got inf"):
        Camera(0, 1, 1, float("inf"), np.eye(4))


def test_a_camera_does_not_change_with_the_array_it_was_built_from():
    pose = np.array(POSE, float)
    cam = camera(pose)
    pose[0, 3] = 99
    assert cam.world_to_camera[0, 3] == 0
    with pytest.raises(ValueError, match="read-only"):
        cam.world_to_camera[0, 3] = 1
