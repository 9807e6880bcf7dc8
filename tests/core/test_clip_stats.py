"""Clip statistics against counts done by hand and by plain numpy."""

import numpy as np
import pytest

from gc25d_core.capsules import Capsules
from gc25d_core.clip_stats import (
    boss_px,
    class_histogram_step,
    class_px,
    ground_z,
    max_frame_offset_cm,
    player_px,
    static_change,
)


def frames(*rows):
    return np.array(rows, np.uint8)[:, None, :]


def test_class_px_counts_every_id_of_every_frame():
    parts = np.random.default_rng(0).integers(0, 22, (5, 31, 37), np.uint8)  # 1147 pixels: not a multiple of 8
    out = class_px(parts)
    assert (out.shape, out.dtype) == ((5, 22), np.int32)
    for f in range(5):
        for k in range(22):
            assert out[f, k] == (parts[f] == k).sum()
    np.testing.assert_array_equal(class_px(parts[:, :, ::2]).sum(axis=1), 31 * 19)


def test_class_px_refuses_what_is_no_id():
    with pytest.raises(ValueError, match=r"frame 1: got ids \[22, 255\], expected 0\.\.21"):
        class_px(frames([0, 1, 2], [22, 255, 0]))
    with pytest.raises(ValueError, match=r"expected uint8 \[F,H,W\]"):
        class_px(np.zeros((3, 4), np.uint8))


def test_player_and_boss_px_count_parts_and_raw_ids():
    counts = class_px(frames([10, 12, 13, 14, 15, 16, 0, 1], [11, 17, 18, 19, 20, 21, 21, 9]))
    assert (player_px(counts).tolist(), boss_px(counts).tolist()) == ([6, 0], [0, 7])
    assert player_px(counts).dtype == np.int32


def test_static_change_is_the_share_of_pixels_static_in_both_frames():
    out = static_change(
        frames(
            [0, 1, 2, 3, 12, 5],
            [0, 1, 3, 12, 4, 6],  # 4 static in both, 2 of them change
            [12, 12, 12, 1, 12, 12],  # none static in both
            [0, 0, 0, 1, 0, 0],  # 1 static in both, no change
            [0, 0, 0, 6, 0, 10],  # 5, one changes
        )
    )
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, [0.5, 0, 0, 0.2], rtol=1e-6)


def test_static_change_is_the_same_from_ids_and_from_parts():
    parts = np.random.default_rng(1).choice(np.array([0, 1, 2, 6, 12, 16, 17, 21], np.uint8), (6, 20, 30))
    ids = np.where(parts >= 17, 11, np.where(parts >= 12, 10, parts)).astype(np.uint8)
    np.testing.assert_array_equal(static_change(ids), static_change(parts))


def test_one_frame_has_no_steps():
    assert static_change(frames([0, 1])).shape == (0,)
    assert class_histogram_step(class_px(frames([0, 1]))).shape == (0,)
    assert max_frame_offset_cm([body(0)]) == 0


def test_histogram_step_is_l1_over_static_classes_normalised_to_one():
    out = class_histogram_step(
        class_px(
            frames(
                [0, 0, 1, 1, 12, 12],  # 1/2, 1/2
                [0, 1, 1, 1, 12, 17],  # 1/4, 3/4
                [2, 10, 10, 10, 10, 10],  # all of it another class
                [12, 12, 12, 12, 12, 12],  # no static pixel
                [0, 0, 0, 0, 0, 0],
            )
        )
    )
    assert out.dtype == np.float64
    np.testing.assert_allclose(out, [0.5, 2, np.nan, np.nan])


def body(z, *, x=0.0, boss_z=-500.0):
    return Capsules.from_records(
        [
            ("boss", "legs", [900 * z, 0, boss_z], [0, 0, 0], 5.0),
            ("player", "legs", [x, 0, z + 8], [x, 0, z + 80], 9.0),
            ("player", "torso", [x, 0, z + 120], [x, 0, z + 90], 30.0),
            ("player", "head", [x, 0, z + 160], [x, 0, z + 160], 12.0),
        ]
    )


def without_player():
    return Capsules.from_records([("boss", "legs", [0, 0, -500], [0, 0, 0], 5.0)])


def test_ground_z_is_the_lowest_point_of_the_player_over_both_endpoints():
    upside_down = Capsules.from_records([("player", "legs", [0, 0, 80], [0, 0, 7], 9.0)])
    thick_above_thin = [("player", "legs", [0, 0, 5], [0, 0, 5], 1.0), ("player", "torso", [0, 0, 9], [0, 0, 9], 19.0)]
    frames = [body(0), body(33.5), without_player(), upside_down, Capsules.from_records([])]
    out = ground_z([*frames, Capsules.from_records(thick_above_thin)])
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, np.float32([-1, 32.5, np.nan, -2, np.nan, -10]))


def test_the_largest_move_is_that_of_the_players_centroid_between_neighbours():
    walk = [body(0, x=x, boss_z=b) for x, b in [(0, 0), (3, 900), (10, -900), (8, 0)]]
    assert max_frame_offset_cm(walk) == pytest.approx(7)
    assert max_frame_offset_cm([body(0), body(4, x=3)]) == pytest.approx(5)


def test_the_centroid_is_the_mean_of_all_endpoints():
    one = Capsules.from_records(
        [("player", "legs", [0, 0, 0], [0, 0, 0], 9.0), ("player", "head", [0, 0, 0], [0, 0, 0], 1.0)]
    )
    two = Capsules.from_records(
        [("player", "legs", [0, 0, 0], [0, 8, 0], 9.0), ("player", "head", [0, 0, 0], [0, 0, 0], 1.0)]
    )
    assert max_frame_offset_cm([one, two]) == pytest.approx(2)


def test_steps_without_a_player_do_not_count():
    assert max_frame_offset_cm([body(0), without_player(), body(1000)]) == 0
    assert max_frame_offset_cm([without_player()] * 3) == 0
    assert max_frame_offset_cm([body(0), without_player(), body(1000), body(1006)]) == pytest.approx(6)
