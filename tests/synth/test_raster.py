"""Pixel centres, projection, depth order, back faces and the near plane, each worked out by hand."""

from __future__ import annotations

import numpy as np

from gc25d_core.synth.mesh import CAPSULE_TRIANGLES, capsule_vertices
from gc25d_core.synth.motion import look_at
from gc25d_core.synth.raster import NEAR, clear_buffers, rasterise

AHEAD = np.eye(4)  # camera axes are world axes: x right, y down, z forward


def _draw(*shapes, size=(8, 6), intrinsics=(1.0, 1.0, 0.0, 0.0), camera=AHEAD):
    width, height = size
    inverse_depth, index = np.empty((height, width)), np.empty((height, width), np.int32)
    clear_buffers(inverse_depth, index)
    for number, corners in enumerate(shapes):
        vertices = np.array(corners, np.float64)
        rasterise(vertices, np.array([[0, 1, 2]], np.int32), number, camera, np.array(intrinsics), inverse_depth, index)
    return inverse_depth, index


def _in_image(u, v, z):
    """A camera point that projects to (u, v) px with fx = fy = 1 and cx = cy = 0."""
    return (u * z, v * z, z)


def _facing(corners, z=100.0):
    """A triangle with image corners, wound so that it faces the camera (y points down: a negative signed area)."""
    (a, b, c) = corners
    area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])
    order = (a, b, c) if area < 0 else (a, c, b)
    return [_in_image(u, v, z) for u, v in order]


def test_a_pixel_is_covered_where_its_centre_lies_inside() -> None:
    _, index = _draw(_facing([(2.4, 1.4), (2.6, 1.4), (2.5, 1.7)]))
    assert np.argwhere(index == 0).tolist() == [[1, 2]], "centre (2.5, 1.5) is row 1, column 2"
    _, index = _draw(_facing([(1.6, 0.6), (2.4, 0.6), (2.0, 1.4)]))
    assert (index == -1).all(), "a triangle between the centres covers nothing"


def test_half_a_pixel_decides_about_columns_and_rows() -> None:
    _, index = _draw(_facing([(1.51, -50.0), (1.51, 50.0), (60.0, 0.0)]))
    assert (index[2] == 0).tolist() == [False, False] + [True] * 6
    _, index = _draw(_facing([(1.49, -50.0), (1.49, 50.0), (60.0, 0.0)]))
    assert (index[2] == 0).tolist() == [False] + [True] * 7


def test_a_world_point_projects_where_the_hand_calculation_says() -> None:
    # Eye 500 cm south of the point and 100 cm over it, looking north and level: 5 m ahead, 1 m below, 0.5 m right.
    camera = look_at(np.array([0.0, -500.0, 100.0]), np.array([0.0, 0.0, 100.0]))
    np.testing.assert_allclose(camera @ [50.0, 0.0, 0.0, 1.0], [50.0, 100.0, 500.0, 1.0], atol=1e-9)
    # fx = 100, fy = 120, cx = 40, cy = 30: u = 100 * 50 / 500 + 40 = 50, v = 120 * 100 / 500 + 30 = 54.
    sphere = capsule_vertices(np.array([[50.0, 0, 0]]), np.array([[50.0, 0, 0]]), np.array([4.0]))[0]
    inverse_depth, index = np.empty((60, 80)), np.empty((60, 80), np.int32)
    clear_buffers(inverse_depth, index)
    rasterise(sphere, CAPSULE_TRIANGLES, 0, camera, np.array([100.0, 120.0, 40.0, 30.0]), inverse_depth, index)
    # A sphere of 4 cm at 5 m reaches 0.8 px sideways and 0.96 px up: the four centres about (50, 54), no other.
    assert np.argwhere(index >= 0).tolist() == [[53, 49], [53, 50], [54, 49], [54, 50]]


def test_inverse_depth_is_that_of_the_plane() -> None:
    inverse_depth, index = _draw(_facing([(-50.0, -50.0), (90.0, -50.0), (0.0, 90.0)], z=250.0))
    assert (index == 0).all()
    np.testing.assert_allclose(inverse_depth, 1 / 250.0, rtol=1e-12)


def test_the_nearer_triangle_wins_whatever_the_order() -> None:
    near, far = (_facing([(-50.0, -50.0), (90.0, -50.0), (0.0, 90.0)], z=z) for z in (100.0, 200.0))
    assert (_draw(near, far)[1] == 0).all()
    assert (_draw(far, near)[1] == 1).all()


def test_back_faces_are_not_drawn() -> None:
    a, b, c = _facing([(-50.0, -50.0), (90.0, -50.0), (0.0, 90.0)])
    assert (_draw([a, c, b])[1] == -1).all()


def test_a_triangle_through_the_near_plane_is_cut_not_dropped() -> None:
    # A floor 20 cm below the camera that starts behind it: drawn from the horizon's lower side on.
    floor = [(-9000.0, 20.0, -500.0), (0.0, 20.0, 9000.0), (9000.0, 20.0, -500.0)]
    flipped = [floor[0], floor[2], floor[1]]
    drawn = [_draw(shape, size=(8, 12), intrinsics=(4.0, 4.0, 4.0, 6.0))[1] for shape in (floor, flipped)]
    shown = max(drawn, key=lambda index: int((index == 0).sum()))
    assert min(int((index == 0).sum()) for index in drawn) == 0, "seen from one side only"
    assert (shown[:6] == -1).all()
    assert (shown[7:] == 0).all()
    assert NEAR < 20


def test_neighbouring_triangles_leave_no_gap() -> None:
    p, q, r, s = (-3.3, -2.7), (20.1, -1.9), (19.7, 17.3), (-2.9, 16.1)
    _, index = _draw(_facing([p, q, r]), _facing([p, r, s]), size=(16, 12))
    assert (index >= 0).all()
