"""Body part labels and re-renders against a slow plain-Python reference, and the pixel convention they rest on.

The reference shares nothing with the product: rays by solving the camera's equations, hits by the textbook quadratics of
spheres and cylinders, distances by golden-section search.
"""

import math
import pickle

import numpy as np
import pytest

from gc25d_core.camera import Camera
from gc25d_core.capsules import Capsules, first_hits
from gc25d_core.classes import FIRST_PART, PARTS, collapse_parts
from gc25d_core.geometry import Geometry
from gc25d_core.labels import (
    NoCapsules,
    label_parts,
    label_parts_from_meta,
    render_capsules,
    render_capsules_from_meta,
)

GEOMETRY = Geometry.fit((96, 48), (64, 32))  # no crop, f = 1.5
CROPPED = Geometry.fit((102, 48), (64, 32))  # crop of 96x48 at (3, 0)
TALL = Geometry.fit((96, 54), (64, 32))  # crop of 96x48 at (0, 3)


def look_at(position, target, *, source=(96, 48), fx=70.0, fy=66.0):
    forward = np.array(target, float) - position
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = [right, np.cross(forward, right), forward]
    pose[:3, 3] = -pose[:3, :3] @ position
    return Camera(fx, fy, source[0] / 2 + 1.3, source[1] / 2 - 0.7, pose)


def random_body(rng, owner, centre, n=7, spread=35.0):
    records = []
    for k in range(n):
        a = np.array(centre) + rng.normal(size=3) * (spread * 0.6, spread * 0.6, spread)
        b = a.copy() if k % 3 == 2 else a + rng.normal(size=3) * spread * 0.6
        records.append((owner, PARTS[k % 5], a, b, rng.uniform(4, 16)))
    return records


# ---- reference ----


def reference_ray(camera, geometry, i, j):
    p, q = geometry.factor.numerator, geometry.factor.denominator
    u = (2 * i + 1) * p // (2 * q) + geometry.crop[0] + 0.5
    v = (2 * j + 1) * p // (2 * q) + geometry.crop[1] + 0.5
    m = camera.world_to_camera
    start = np.linalg.solve(m, [0, 0, 0, 1])[:3]
    through = np.linalg.solve(m, [(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, 1, 1])[:3]
    d = through - start
    return start.tolist(), (d / math.sqrt(d @ d)).tolist()


def dot(x, y):
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


def reference_distance(x, a, b):
    k = [b[n] - a[n] for n in range(3)]
    kk = dot(k, k)
    s = 0.0 if kk == 0 else min(1.0, max(0.0, dot([x[n] - a[n] for n in range(3)], k) / kk))
    return math.dist(x, [a[n] + s * k[n] for n in range(3)])


def reference_hit(o, d, a, b, r):
    if reference_distance(o, a, b) <= r:
        return 0.0
    found = []
    for c in (a, b):
        oc = [o[n] - c[n] for n in range(3)]
        h = dot(oc, d) ** 2 - dot(oc, oc) + r * r
        if h >= 0:
            found.append(-dot(oc, d) - math.sqrt(h))
    k = [b[n] - a[n] for n in range(3)]
    kk = dot(k, k)
    if kk > 0:
        axis = [x / math.sqrt(kk) for x in k]
        oa = [o[n] - a[n] for n in range(3)]
        dp = [d[n] - dot(d, axis) * axis[n] for n in range(3)]
        op = [oa[n] - dot(oa, axis) * axis[n] for n in range(3)]
        qa, qb, qc = dot(dp, dp), dot(op, dp), dot(op, op) - r * r
        if qa > 1e-14 and qb * qb - qa * qc >= 0:
            t = (-qb - math.sqrt(qb * qb - qa * qc)) / qa
            if 0 <= dot([oa[n] + t * d[n] for n in range(3)], k) <= kk:
                found.append(t)
    found = [t for t in found if t >= 0]
    return min(found) if found else math.inf


def reference_gap(o, d, a, b, r):
    """Distance of the forward ray to the segment (convex along it), by golden-section search, minus r."""

    def to_ray(s):
        x = [a[n] + s * (b[n] - a[n]) - o[n] for n in range(3)]
        t = max(0.0, dot(x, d))
        return math.dist(x, [t * d[n] for n in range(3)])

    low, high, g = 0.0, 1.0, (math.sqrt(5) - 1) / 2
    for _ in range(45):
        one, two = high - g * (high - low), low + g * (high - low)
        low, high = (low, two) if to_ray(one) < to_ray(two) else (one, high)
    return min(to_ray(0.0), to_ray(1.0), to_ray((low + high) / 2)) - r


def close_call(values, parts, best):
    """Whether the winner depends on rounding: another part within 1e-5 of the best."""
    return any(v < values[best] + 1e-5 and parts[n] != parts[best] for n, v in enumerate(values))


def reference_part(camera, capsules, geometry, i, j, *, nearest):
    """(part or 0, whether it is beyond doubt) at target pixel (i, j) over all `capsules`."""
    o, d = reference_ray(camera, geometry, i, j)
    shapes = list(zip(capsules.a.tolist(), capsules.b.tolist(), capsules.radius.tolist(), strict=True))
    parts = capsules.part.tolist()
    hits = [reference_hit(o, d, *shape) for shape in shapes]
    best = int(np.argmin(hits))
    if hits[best] < math.inf:
        return parts[best], not close_call(hits, parts, best)
    if not nearest:
        return 0, True
    gaps = [reference_gap(o, d, *shape) for shape in shapes]
    best = int(np.argmin(gaps))
    return parts[best], not close_call(gaps, parts, best)


def of_owner(capsules, owner):
    m = capsules.owner_mask(owner)
    return Capsules(capsules.a[m], capsules.b[m], capsules.radius[m], capsules.part[m])


def two_characters(seed, source=(96, 48)):
    rng = np.random.default_rng(seed)
    camera = look_at(np.array([-210.0, 20, 140]), [0, 0, 90], source=source)
    records = random_body(rng, "player", (-40, 40, 90)) + random_body(rng, "boss", (60, -50, 100), spread=50.0)
    return rng, camera, Capsules.from_records([records[n] for n in rng.permutation(len(records))])


# ---- against the reference ----


@pytest.mark.parametrize(("seed", "geometry"), [(0, GEOMETRY), (1, CROPPED), (2, TALL)])
def test_labels_equal_the_reference_where_rays_hit_and_where_they_miss(seed, geometry):
    rng, camera, capsules = two_characters(seed, geometry.source)
    # Ids that need not agree with the capsules: a fifth of the pixels each is player or boss.
    ids = rng.choice(np.array([3, 3, 3, 10, 11], np.uint8), size=(32, 64))
    out = label_parts(ids, camera, capsules, geometry)
    doubtful = 0
    for j, i in zip(*np.nonzero(ids != 3), strict=True):
        owner = "player" if ids[j, i] == 10 else "boss"
        part, sure = reference_part(camera, of_owner(capsules, owner), geometry, int(i), int(j), nearest=True)
        doubtful += not sure
        assert out[j, i] == part or not sure, (i, j)
    assert doubtful < 5
    assert (out[ids == 3] == 3).all()
    hit = render_capsules(camera, capsules, geometry)[ids != 3] > 0
    assert 0.1 < hit.mean() < 0.9, "the scene must test both rules"


@pytest.mark.parametrize("seed", [3, 4])
def test_renders_equal_the_reference(seed):
    _, camera, capsules = two_characters(seed, CROPPED.source)
    out = render_capsules(camera, capsules, CROPPED)
    for j in range(32):
        for i in range(64):
            part, sure = reference_part(camera, capsules, CROPPED, i, j, nearest=False)
            assert out[j, i] == part or not sure, (i, j)
    assert len(np.unique(out)) > 6


@pytest.mark.parametrize("seed", range(6))
def test_renders_equal_the_reference_among_and_inside_capsules(seed):
    """Capsules beside, behind, around and across the camera's plane: the boxes that cull must not cut any."""
    rng = np.random.default_rng(100 + seed)
    camera = look_at(np.array([0.0, 0, 0]), rng.normal(size=3) * (1, 1, 0.3), fx=40.0, fy=40.0)
    records = random_body(rng, "player", rng.normal(size=3) * 25, n=4) + random_body(
        rng, "boss", (0, 0, 0), n=3, spread=70
    )
    capsules = Capsules.from_records(
        [r for r in records if seed < 2 or reference_distance([0, 0, 0], r[2], r[3]) > r[4]]
    )
    out = render_capsules(camera, capsules, GEOMETRY)
    for j in range(0, 32, 2):
        for i in range(64):
            part, sure = reference_part(camera, capsules, GEOMETRY, i, j, nearest=False)
            assert out[j, i] == part or not sure, (i, j)


def test_renders_cull_no_capsule_that_a_ray_hits():
    """One capsule at a time over the whole image and its margins, against every ray without any culling."""
    rng = np.random.default_rng(8)
    camera = look_at(np.array([0.0, 0, 0]), [1, 0.1, 0.05])
    rays = camera.rays(GEOMETRY.columns + 0.5, GEOMETRY.rows[:, None] + 0.5)
    partly = 0
    for _ in range(60):
        a = np.array([rng.uniform(30, 700), rng.uniform(-400, 400), rng.uniform(-200, 200)])
        capsules = Capsules.from_records([("boss", "head", a, a + rng.normal(size=3) * 30, rng.uniform(1, 30))])
        hit = [[first_hits(capsules, origin=camera.centre, direction=d)[1][0] <= 0 for d in row] for row in rays]
        np.testing.assert_array_equal(render_capsules(camera, capsules, GEOMETRY) > 0, hit)
        partly += 0 < np.mean(hit) < 1
    assert partly > 20


# ---- the pixel convention ----


@pytest.mark.parametrize(("geometry", "x0", "y0"), [(GEOMETRY, 0, 0), (CROPPED, 3, 0), (TALL, 0, 3)])
def test_rays_go_through_the_centres_of_the_source_pixels_that_nearest_picked(geometry, x0, y0):
    """A needle through a source pixel's centre is seen by exactly that target pixel, and not at target centres."""
    camera = look_at(np.array([0.0, 0, 0]), [1, 0, 0], source=geometry.source)
    for i, j in [(0, 0), (1, 1), (20, 7), (21, 8), (63, 31)]:
        # f = 1.5: target pixels 0, 1 pick source pixels 0, 2 of each three.
        u = x0 + (i // 2) * 3 + (0, 2)[i % 2] + 0.5
        v = y0 + (j // 2) * 3 + (0, 2)[j % 2] + 0.5
        at = 400 * camera.rays(u, v)
        needle = Capsules.from_records([("boss", "arms", at, at, 400 / 70 * 0.05)])  # 0.05 source pixels
        out = render_capsules(camera, needle, geometry)
        assert np.argwhere(out).tolist() == [[j, i]]
        at = 400 * camera.rays(x0 + (i + 0.5) * 1.5, y0 + (j + 0.5) * 1.5)
        centre = Capsules.from_records([("boss", "arms", at, at, 400 / 70 * 0.05)])
        assert not render_capsules(camera, centre, geometry).any()


@pytest.mark.parametrize(
    "geometry", [GEOMETRY, CROPPED, Geometry.fit((128, 64), (64, 32)), Geometry.fit((64, 32), (64, 32))]
)
def test_meta_casts_the_same_rays(geometry):
    rng, camera, capsules = two_characters(5, geometry.source)
    K = geometry.intrinsics(*camera.intrinsics)
    rows = np.vstack([capsules.to_float32_rows(), [[np.nan] * 7 + [0]]]).astype(np.float32)
    stored = Capsules.from_rows(rows)
    ids = rng.choice(np.array([1, 10, 11], np.uint8), size=(32, 64))
    pose = camera.world_to_camera
    np.testing.assert_array_equal(
        render_capsules_from_meta(K, pose, rows, geometry), render_capsules(camera, stored, geometry)
    )
    np.testing.assert_array_equal(
        label_parts_from_meta(ids, K, pose, rows, geometry), label_parts(ids, camera, stored, geometry)
    )


# ---- rules ----


def aimed(capsules):
    """All target pixels as `player`, looked at along +x from the origin."""
    return label_parts(np.full((32, 64), 10, np.uint8), look_at(np.zeros(3), [1, 0, 0]), capsules, GEOMETRY)


def test_collapsed_labels_are_the_ids_and_ids_are_left_alone():
    rng, camera, capsules = two_characters(6)
    ids = rng.choice(np.array([0, 1, 2, 3, 4, 5, 6, 10, 11], np.uint8), size=(32, 64))
    before = ids.copy()
    ids.setflags(write=False)
    out = label_parts(ids, camera, capsules, GEOMETRY)
    np.testing.assert_array_equal(ids, before)
    np.testing.assert_array_equal(collapse_parts(out), ids)
    assert set(np.unique(out[ids == 10])) <= set(range(12, 17))
    assert set(np.unique(out[ids == 11])) <= set(range(17, 22))
    assert not np.isin(out, (10, 11)).any()


def test_a_pixel_takes_a_part_of_its_own_character_even_behind_the_other():
    near_boss = ("boss", "torso", [100, 0, 0], [100, 0, 0], 80.0)
    far_player = ("player", "legs", [500, 0, 0], [500, 0, 0], 5.0)
    assert (aimed(Capsules.from_records([near_boss, far_player])) == 15).all()


def test_the_nearer_capsule_wins_whatever_the_order():
    near, far = (("player", part, [x, 0, 0], [x, 0, 0], 90.0) for part, x in (("arms", 200), ("legs", 300)))
    for order in ([near, far], [far, near]):
        assert aimed(Capsules.from_records(order))[16, 32] == 14


@pytest.mark.parametrize("difference", [0.0, 4e-7, -4e-7])
def test_ties_within_1e_6_cm_go_to_the_lower_index(difference):
    for first, second in (("arms", "legs"), ("legs", "arms")):
        for z in (0.0, 500.0):  # hit by the ray of the middle pixel; missed, and as near
            capsules = Capsules.from_records(
                [
                    ("player", first, [200, 0, z], [200, 0, z], 50.0),
                    ("player", second, [200 + difference, 0, z], [200 + difference, 0, z], 50.0),
                ]
            )
            part = FIRST_PART["player"] + PARTS.index(first)
            assert aimed(capsules)[16, 32] == part
            seen = render_capsules(look_at(np.zeros(3), [1, 0, 0]), capsules, GEOMETRY)[16, 32]
            assert seen == (part if z == 0 else 0)


def test_more_than_1e_6_cm_is_no_tie():
    capsules = Capsules.from_records(
        [("player", p, [x, 0, 0], [x, 0, 0], 50.0) for p, x in (("arms", 200), ("legs", 200 - 1e-5))]
    )
    assert aimed(capsules)[16, 32] == 15


def test_a_chain_of_near_ties_goes_to_the_lowest_index_near_the_best_one():
    step = 0.7e-6
    capsules = Capsules.from_records(
        [
            ("player", p, [200 - n * step, 0, 0], [200 - n * step, 0, 0], 50.0)
            for n, p in enumerate(("arms", "legs", "head"))
        ]
    )
    assert aimed(capsules)[16, 32] == 15, "arms are 1.4e-6 behind the head, legs 0.7e-6"


def test_a_camera_inside_a_capsule_sees_it_everywhere():
    inside = ("player", "torso", [-5, 0, -20], [-5, 0, 20], 10.0)
    ahead = ("player", "head", [30, 0, 0], [30, 0, 0], 3.0)
    capsules = Capsules.from_records([ahead, inside])
    assert (aimed(capsules) == 13).all()
    assert (render_capsules(look_at(np.zeros(3), [1, 0, 0]), capsules, GEOMETRY) == 13).all()


def test_what_lies_behind_the_camera_is_not_hit_but_may_be_nearest():
    behind = Capsules.from_records([("player", "weapon", [-50, 0, 0], [-60, 5, 0], 20.0)])
    assert not render_capsules(look_at(np.zeros(3), [1, 0, 0]), behind, GEOMETRY).any()
    assert (aimed(behind) == 16).all()


def test_a_missing_ray_takes_the_nearest_surface_not_the_nearest_axis():
    thick = ("player", "torso", [200, 0, 120], [200, 0, 120], 60.0)  # axis 120 away, surface 60
    thin = ("player", "arms", [200, 0, -90], [200, 0, -90], 1.0)  # axis 90 away, surface 89
    assert aimed(Capsules.from_records([thin, thick]))[16, 32] == 13


@pytest.mark.parametrize("owner", ["player", "boss"])
def test_a_character_without_capsules_is_an_error_that_counts_its_pixels(owner):
    ids = np.full((32, 64), 2, np.uint8)
    ids[3, 5:9] = {"player": 10, "boss": 11}[owner]
    other = "boss" if owner == "player" else "player"
    camera = look_at(np.zeros(3), [1, 0, 0])
    capsules = Capsules.from_records([(other, "head", [9, 0, 0], [9, 0, 0], 1.0)])
    with pytest.raises(NoCapsules) as caught:
        label_parts(ids, camera, capsules, GEOMETRY)
    assert (caught.value.owner, caught.value.pixels) == (owner, 4)
    assert pickle.loads(pickle.dumps(caught.value)).pixels == 4
    with pytest.raises(NoCapsules):
        label_parts(ids, camera, Capsules.from_records([]), GEOMETRY)


def test_no_capsules_matter_not_where_no_character_is_seen():
    ids = np.full((32, 64), 2, np.uint8)
    camera = look_at(np.zeros(3), [1, 0, 0])
    np.testing.assert_array_equal(label_parts(ids, camera, Capsules.from_records([]), GEOMETRY), ids)
    assert not render_capsules(camera, Capsules.from_records([]), GEOMETRY).any()


@pytest.mark.parametrize("ids", [np.zeros((48, 96), np.uint8), np.zeros((32, 64), np.int32)])
def test_ids_of_another_size_or_type_are_refused(ids):
    with pytest.raises(ValueError, match=r"expected uint8 \(32, 64\)"):
        label_parts(ids, look_at(np.zeros(3), [1, 0, 0]), Capsules.from_records([]), GEOMETRY)
