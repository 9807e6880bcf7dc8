"""The verifier's own ray casting and resampling against known values, and against the code it is there to doubt."""

import numpy as np
import pytest

from gc25d_core.capsules import Capsules, first_hits
from gc25d_core.geometry import Geometry
from gc25d_core.verify.raw_source import area, nearest
from gc25d_core.verify.ray_oracle import hit_and_gap, rays, unlike_definition

ORIGIN = np.zeros(3)


def one(d, a, b, radius):
    d = np.array([d], float)
    t, gap = hit_and_gap(ORIGIN, d / np.linalg.norm(d), np.array(a, float), np.array(b, float), radius)
    return float(t[0]), float(gap[0])


@pytest.mark.parametrize(
    ("d", "a", "b", "radius", "t", "gap"),
    [
        ((0, 0, 1), (0, 0, 10), (0, 0, 10), 2, 8, -2),  # a sphere ahead
        ((0, 0, 1), (0, 0, 10), (0, 0, 30), 2, 8, -2),  # along the axis
        ((0, 0, 1), (-5, 0, 10), (5, 0, 10), 2, 8, -2),  # across the tube
        ((0, 0, 1), (3, -5, 10), (3, 5, 10), 2, np.inf, 1),  # beside the tube
        ((0, 0, 1), (0, 0, -10), (0, 0, -10), 2, np.inf, 8),  # behind: distance to the ray's start
        ((0, 0, 1), (0, 0, -1), (0, 0, 1), 2, 0, -2),  # from inside
        ((0, 0, 1), (0, 5, 10), (0, 9, 10), 2, np.inf, 3),  # nearest at an end of the segment
        ((0, 0, 1), (0, 0, 10), (0, 0, 10), 0.5, 9.5, -0.5),
    ],
)
def test_first_hit_and_gap_of_cases_done_by_hand(d, a, b, radius, t, gap):
    assert one(d, a, b, radius) == pytest.approx((t, gap), abs=1e-12)


def test_random_capsules_agree_with_the_library():
    rng = np.random.default_rng(5)
    n = 300
    a, b = rng.normal((0, 0, 80), 60, (2, n, 3))
    b[::10] = a[::10]
    radius = rng.uniform(1, 30, n)
    capsules = Capsules(a, b, radius, np.full(n, 12))
    hits = 0
    for d in rng.normal((0, 0, 1), 0.4, (40, 3)):
        t, gap = first_hits(capsules, origin=ORIGIN, direction=d)
        unit = (d / np.linalg.norm(d))[None]
        mine = np.array([hit_and_gap(ORIGIN, unit, a[i], b[i], float(radius[i])) for i in range(n)])[..., 0]
        clear = np.abs(gap) > 1e-6
        np.testing.assert_allclose(mine[clear, 0], t[clear], atol=1e-6)
        np.testing.assert_allclose(np.maximum(mine[:, 1], 0), np.maximum(gap, 0), atol=1e-6)
        hits += int(np.isfinite(t).sum())
    assert hits > 500


def test_rays_start_at_the_camera_and_project_back():
    pose = [[0, -1, 0, 30], [0, 0, -1, 20], [1, 0, 0, 50], [0, 0, 0, 1]]
    camera = {"fx": 70, "fy": 80, "cx": 48, "cy": 24, "world_to_camera": pose}
    u, v = np.array([10.5, 90.5]), np.array([3.5, 40.5])
    origin, d = rays(camera, u, v)
    p = np.array(pose, float)
    np.testing.assert_allclose(p[:3, :3] @ origin + p[:3, 3], 0, atol=1e-12)
    x = (origin + 250 * d) @ p[:3, :3].T + p[:3, 3]
    np.testing.assert_allclose(70 * x[:, 0] / x[:, 2] + 48, u)
    np.testing.assert_allclose(80 * x[:, 1] / x[:, 2] + 24, v)


def test_a_part_that_the_definition_does_not_allow_is_counted():
    """Two spheres side by side: left is the head, right the torso."""
    pose = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    record = {
        "camera": {"fx": 8.0, "fy": 8.0, "cx": 4.0, "cy": 2.0, "world_to_camera": pose},
        "capsules": [
            {"owner": "player", "part": "head", "a": [-25, 0, 100], "b": [-25, 0, 100], "radius": 20},
            {"owner": "player", "part": "torso", "a": [25, 0, 100], "b": [25, 0, 100], "radius": 20},
        ],
    }
    ids = np.full((4, 8), 10, np.uint8)
    parts = np.where(np.arange(8) < 4, 12, 13).astype(np.uint8)[None].repeat(4, axis=0)
    columns, rows = np.arange(8), np.arange(4)
    assert unlike_definition(ids, parts, columns, rows, record) == 0
    parts[1, 1], parts[2, 7] = 13, 14
    assert unlike_definition(ids, parts, columns, rows, record) == 2
    ids[0, 0] = 11  # a boss pixel without any capsule of the boss
    assert unlike_definition(ids, parts, columns, rows, record) == 3


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((1280, 720), (832, 480)),
        ((640, 360), (416, 240)),
        ((96, 48), (64, 32)),
        ((64, 32), (64, 32)),
        ((128, 128), (64, 32)),
    ],
)
def test_nearest_indices_from_the_sizes_alone_are_those_of_the_geometry(source, target):
    geometry = Geometry.fit(source, target)
    columns, rows = nearest(source, target)
    assert columns.tolist() == geometry.columns.tolist() and rows.tolist() == geometry.rows.tolist()


def test_area_average_of_a_known_picture():
    image = np.zeros((3, 6, 3), np.uint8)
    image[:, 1] = 90  # factor 1.5: the second column gives a third of it to each of the first two target columns
    small = area(image, (4, 2))
    assert small[..., 0].tolist() == [[30, 30, 0, 0]] * 2
