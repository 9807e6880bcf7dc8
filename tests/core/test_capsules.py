"""Capsule arithmetic against what defines a capsule (points within a radius of a segment), and the struct of arrays."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gc25d_core.capsules import Capsules, first_hits, stack_rows


def distance_to_segment(points, a, b):
    """Plain definition: nearest point of the segment, found by projecting onto it. [..., 3] -> [...]."""
    k = b - a
    kk = k @ k
    s = np.clip((points - a) @ k / kk, 0, 1) if kk > 0 else np.zeros(points.shape[:-1])
    return np.linalg.norm(points - a - s[..., None] * k, axis=-1)


def one(a, b, r, origin=(0, 0, 0), direction=(1, 0, 0)):
    capsules = Capsules.from_records([("player", "torso", a, b, r)])
    t, gap = first_hits(capsules, origin=np.array(origin, float), direction=np.array(direction, float))
    return t[0], gap[0]


@pytest.mark.parametrize(
    ("a", "b", "r", "t", "gap"),
    [
        ((10, 0, 0), (10, 0, 0), 2, 8, -2),  # sphere ahead
        ((10, 3, 0), (10, 3, 0), 5, 6, -2),  # sphere off centre: 10 - sqrt(25 - 9)
        ((10, 0, -5), (10, 0, 5), 2, 8, -2),  # across the ray
        ((10, 0, 0), (20, 0, 0), 2, 8, -2),  # along the ray, either way round
        ((20, 0, 0), (10, 0, 0), 2, 8, -2),
        ((10, 1, 0), (20, 1, 0), 2, 10 - 3**0.5, -1),  # parallel to the ray, off it
        ((10, 0, 4), (10, 0, 9), 5, 7, -1),  # only the cap's round end: 10 - sqrt(25 - 16)
        ((10, 0, 7), (10, 0, 9), 5, np.inf, 2),  # past the end
        ((10, 6, -5), (10, 6, 5), 2, np.inf, 4),  # beside
        ((-10, 0, 0), (-10, 0, 0), 2, np.inf, 8),  # behind the start: the forward ray does not see it
        ((-10, 0, 0), (-3, 0, 0), 2, np.inf, 1),
        ((-10, 0, 0), (10, 0, 0), 2, 0, -2),  # started inside
        ((1, 0, 0), (1, 0, 0), 2, 0, -2),
        ((-1, 0, 0), (-1, 0, 0), 2, 0, -1),  # inside, the centre already passed
        ((-1, 0, -9), (-1, 0, 9), 2, 0, -1),
    ],
)
def test_hits_computed_by_hand(a, b, r, t, gap):
    assert one(a, b, r) == pytest.approx((t, gap), abs=1e-12)


coordinate = st.floats(-300, 300, allow_subnormal=False)
point = st.tuples(coordinate, coordinate, coordinate).map(np.array)
shape = st.tuples(point, st.one_of(point, st.just(None)), st.floats(0.5, 80))
direction = st.tuples(*[st.floats(-1, 1, allow_subnormal=False)] * 3).map(np.array)


@settings(max_examples=400, deadline=None)
@given(shape, point, direction)
def test_the_hit_is_the_first_point_of_the_ray_inside_the_capsule(shape, origin, d):
    a, b, r = shape
    b = a if b is None else b
    assume(np.linalg.norm(d) > 1e-3)
    d = d / np.linalg.norm(d)
    t, gap = one(a, b, r, origin, d)
    along = np.linspace(0, 1500, 3001)
    outside = distance_to_segment(origin + along[:, None] * d, a, b) - r
    assert gap <= outside.min() + 1e-7, "no sampled point of the ray is nearer than the nearest"
    assert gap >= outside.min() - 0.26, "the samples are 0.5 cm apart"
    assert np.isfinite(t) == (gap <= 0)
    if t == 0:
        assert outside[0] <= 1e-9
    elif np.isfinite(t):
        assert distance_to_segment(origin + t * d, a, b) == pytest.approx(r, abs=1e-6)
        assert (outside[along < t - 1e-3] > 0).all(), "it enters earlier"
    else:
        assert (outside > 0).all()


@settings(max_examples=200, deadline=None)
@given(shape, point, direction, st.integers(0, 2**32 - 1))
def test_rotating_and_moving_the_world_changes_nothing(shape, origin, d, seed):
    a, b, r = shape
    b = a if b is None else b
    assume(np.linalg.norm(d) > 1e-3)
    rng = np.random.default_rng(seed)
    turn, move = np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=3) * 200
    t, gap = one(a, b, r, origin, d)
    assume(abs(gap) > 1e-6)
    t2, gap2 = one(turn @ a + move, turn @ b + move, r, turn @ origin + move, turn @ d)
    assert gap2 == pytest.approx(gap, abs=1e-7)
    assert t2 == pytest.approx(t, abs=1e-4)  # a grazing hit moves by sqrt of the rounding


@settings(max_examples=200, deadline=None)
@given(shape, point, direction)
def test_swapping_the_ends_changes_nothing(shape, origin, d):
    a, b, r = shape
    b = a if b is None else b
    assume(np.linalg.norm(d) > 1e-3)
    t, gap = one(a, b, r, origin, d)
    assume(abs(gap) > 1e-6)
    assert one(b, a, r, origin, d) == pytest.approx((t, gap), abs=1e-4)


@pytest.mark.parametrize("tilt", [0, 1e-12, 1e-10, 3e-9, 1e-8, 1e-6, 1e-4])
def test_a_segment_almost_parallel_to_the_ray_is_hit_at_its_near_end(tilt):
    for a, b in (((50, 1, 0), (150, 1 + 100 * tilt, 0)), ((150, 1 + 100 * tilt, 0), (50, 1, 0))):
        assert one(a, b, 2.0) == pytest.approx((50 - 3**0.5, -1), abs=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_a_capsule_that_points_at_the_camera_is_hit_at_its_near_end(seed):
    d = np.random.default_rng(seed).normal(size=3)
    d /= np.linalg.norm(d)
    for a, b in ((100 * d, 160 * d), (160 * d, 100 * d)):
        assert one(a, b, 7.0, direction=d) == pytest.approx((93, -7), abs=1e-9)


@pytest.mark.parametrize("length", [1e-3, 1e-9, 1e-12, 1e-30, 1e-100, 1e-160, 5e-324])
def test_a_very_short_segment_is_a_sphere(length):
    for k in ((length, 0, 0), (0, length, 0), (length, length, -length)):
        assert one((10, 3, 0), (10 + k[0], 3 + k[1], k[2]), 5) == pytest.approx((6, -2), abs=3 * length + 1e-9)
        assert one((0, 0, 6), (k[0], k[1], 6 + k[2]), 5, origin=(1, 0, 0)) == pytest.approx(
            (np.inf, 37**0.5 - 5), abs=0.01
        )
        assert one(k, (0, 0, 0), 5, origin=(20, 3, 0), direction=(-1, 0, 0)) == pytest.approx(
            (16, -2), abs=3 * length + 1e-9
        )


def test_a_distant_camera_loses_no_precision():
    assert one((1e6, 3, 0), (1e6, 3, 0), 5) == pytest.approx((1e6 - 4, -2), abs=1e-8)


RECORDS = [
    ("player", "head", [0, 0, 170], [0, 0, 170], 12.0),
    ("boss", "weapon", [1, 2, 3], [4, 5, 6], 7.0),
    ("player", "legs", [0, 0, 0.1], [0, 0, 80], 9.0),
]


def test_records_become_arrays_in_their_order():
    c = Capsules.from_records(RECORDS)
    assert c.part.tolist() == [12, 21, 15]
    assert (c.a.dtype, c.b.dtype, c.radius.dtype, c.part.dtype) == (np.float64,) * 3 + (np.uint8,)
    np.testing.assert_array_equal(c.b, [[0, 0, 170], [4, 5, 6], [0, 0, 80]])
    assert c.owner_mask("player").tolist() == [True, False, True]
    assert c.owner_mask("boss").tolist() == [False, True, False]


def test_no_records_are_no_capsules():
    c = Capsules.from_records([])
    assert (len(c), c.a.shape, c.to_float32_rows().shape) == (0, (0, 3), (0, 8))
    assert first_hits(c, origin=np.zeros(3), direction=np.ones(3))[0].shape == (0,)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (("player", "tail", [0, 0, 0], [0, 0, 0], 1.0), "capsule 1: .*'tail'.*head, torso"),
        (("horse", "head", [0, 0, 0], [0, 0, 0], 1.0), "capsule 1: .*'horse'"),
        (("boss", "head", [0, 0, 0], [0, 0, 0], 0.0), "capsule 1: got radius 0.0, expected > 0"),
        (("boss", "head", [0, 0, 0], [0, 0, 0], float("nan")), "capsule 1: got radius = nan"),
        (("boss", "head", [0, float("inf"), 0], [0, 0, 0], 1.0), "capsule 1: got a = .*inf"),
    ],
)
def test_a_bad_record_is_named(record, says):
    with pytest.raises(ValueError, match=says):
        Capsules.from_records([RECORDS[0], record])


def test_stored_rows_come_back_without_their_padding():
    frames = [Capsules.from_records(RECORDS), Capsules.from_records([]), Capsules.from_records(RECORDS[1:2])]
    rows = stack_rows(frames)
    assert (rows.shape, rows.dtype) == ((3, 3, 8), np.float32)
    assert np.isnan(rows[1, :, :7]).all() and (rows[1, :, 7] == 0).all()
    for capsules, stored in zip(frames, rows, strict=True):
        back = Capsules.from_rows(stored)
        assert back.part.tolist() == capsules.part.tolist()
        np.testing.assert_array_equal(back.a, capsules.a.astype(np.float32))
        np.testing.assert_array_equal(back.b, capsules.b.astype(np.float32))
        np.testing.assert_array_equal(back.radius, capsules.radius.astype(np.float32))


def test_a_damaged_row_is_not_mistaken_for_padding():
    rows = Capsules.from_records(RECORDS).to_float32_rows()
    rows[1, 2] = np.nan
    with pytest.raises(ValueError, match="capsule 1: got a = "):
        Capsules.from_rows(rows)
    rows = Capsules.from_records(RECORDS).to_float32_rows()
    rows[2, 7] = 22
    with pytest.raises(ValueError, match=r"capsule 2: got part id 22\.0, expected 12\.\.21"):
        Capsules.from_rows(rows)
    rows[2, 7] = 12.5
    with pytest.raises(ValueError, match=r"capsule 2: got part id 12\.5"):
        Capsules.from_rows(rows)
    with pytest.raises(ValueError, match=r"expected \[N, 8\]"):
        Capsules.from_rows(np.zeros((3, 7), np.float32))
