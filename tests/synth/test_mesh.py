"""Capsule meshes hug their capsules; every mesh is closed and faces outwards."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gc25d_core.synth.mesh import (
    CAPSULE_SEGMENTS,
    CAPSULE_TRIANGLES,
    Mesh,
    ball,
    boulder,
    box,
    capsule_vertices,
    cone,
    cylinder,
)

CAPSULES = {
    "upright": ([0.0, 0, 0], [0.0, 0, 40], 6.0),
    "slanted": ([3.0, -20, 7], [31.0, 12, -15], 2.5),
    "along x": ([-5.0, 0, 0], [60.0, 0, 0], 9.0),
    "sphere": ([4.0, 5, 6], [4.0, 5, 6], 13.0),
}


def _mesh(a, b, radius) -> Mesh:
    vertices = capsule_vertices(np.array([a]), np.array([b]), np.array([radius]))[0]
    return Mesh(vertices, CAPSULE_TRIANGLES)


def _distance_to_axis(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    axis = b - a
    along = np.zeros(len(points)) if not axis.any() else np.clip((points - a) @ axis / (axis @ axis), 0, 1)
    return np.linalg.norm(points - a - along[:, None] * axis, axis=1)


@pytest.mark.parametrize("name", CAPSULES)
def test_every_point_of_the_mesh_is_within_half_a_percent_of_the_surface(name: str) -> None:
    a, b, radius = CAPSULES[name]
    mesh = _mesh(a, b, radius)
    weights = np.random.default_rng(0).dirichlet([0.6, 0.6, 0.6], size=(40, len(mesh.triangles)))
    weights = np.concatenate([weights, np.broadcast_to([1 / 3] * 3, (1, len(mesh.triangles), 3))])
    points = np.einsum("stc,tcd->std", weights, mesh.vertices[mesh.triangles]).reshape(-1, 3)
    off = _distance_to_axis(np.concatenate([points, mesh.vertices]), np.array(a), np.array(b)) / radius - 1
    assert off.max() - off.min() <= 0.005, "sagitta"
    assert np.abs(off).max() <= 0.0025, "pushed out by half of it, so that the facets straddle the surface"


def test_a_capsule_has_at_least_32_segments_and_caps_as_fine() -> None:
    assert CAPSULE_SEGMENTS >= 32
    vertices = capsule_vertices(np.zeros((1, 3)), np.array([[0.0, 0, 10]]), np.array([1.0]))[0]
    edges = vertices[CAPSULE_TRIANGLES][:, [1, 2, 0]] - vertices[CAPSULE_TRIANGLES]
    on_caps = np.abs(edges[..., 2]).max(axis=1) < 5
    assert np.linalg.norm(edges[on_caps], axis=-1).max() <= np.sqrt(2) * 2 * np.pi / 32


MESHES = {
    **{name: _mesh(*capsule) for name, capsule in CAPSULES.items()},
    "box": box(),
    "cone": cone(7),
    "cylinder": cylinder(8, top=0.7),
    "ball": ball(9, 6),
    "boulder": boulder(np.random.default_rng(1)),
}


@pytest.mark.parametrize("name", MESHES)
def test_every_mesh_is_closed_and_faces_outwards(name: str) -> None:
    mesh = MESHES[name]
    _, same = np.unique(np.round(mesh.vertices, 9), axis=0, return_inverse=True)
    triangles = same.ravel()[mesh.triangles]
    triangles = triangles[[len(set(t)) == 3 for t in triangles.tolist()]]
    edges = Counter((int(t[k]), int(t[(k + 1) % 3])) for t in triangles for k in range(3))
    assert all(count == 1 and edges[(v, u)] == 1 for (u, v), count in edges.items())
    corners = mesh.vertices[mesh.triangles] - mesh.vertices.mean(axis=0)
    assert np.linalg.det(corners).sum() > 0, "the volume is positive only if faces look outwards"
