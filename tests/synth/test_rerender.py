"""The drawn characters are those that the json describes: an analytic re-render agrees with the ids."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from gc25d_core.synth import iter_frames

SIZE = (320, 180)


@pytest.fixture(scope="module")
def frames():
    return [f for family in ("v10", "v9") for f in list(iter_frames(family, 11, SIZE, 70))[::10]]


def _scores(frames, analytic, at: float) -> tuple[list[float], list[float]]:
    covered, iou = [], []
    for frame in frames:
        drawn = analytic(frame.json["camera"], frame.json["capsules"], SIZE, at)
        for owner in (10, 11):
            true, mine = frame.ids == owner, drawn == owner
            if true.sum() < 300:
                continue
            covered.append((true & mine).sum() / true.sum())
            inner = cv2.erode(mine.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
            if not (inner & (frame.ids != owner)).any():
                iou.append((true & mine).sum() / (true | mine).sum())
    return covered, iou


def test_true_pixels_are_covered_and_the_overlap_is_almost_whole(frames, analytic) -> None:
    covered, iou = _scores(frames, analytic, 0.5)
    assert len(covered) > 20 and len(iou) > 15
    assert min(covered) >= 0.99
    assert np.median(iou) >= 0.995


def test_the_measure_notices_half_a_pixel(frames, analytic) -> None:
    _, iou = _scores(frames, analytic, 0.0)
    assert np.median(iou) < 0.98


def test_the_player_is_large_enough() -> None:
    pixels = [int((f.ids == 10).sum()) for seed in range(6) for f in list(iter_frames("v10", seed, (640, 360), 1))]
    assert np.median(pixels) > 2000


def test_a_picture_shows_a_bright_sky_over_textured_ground_in_v10_and_flat_ground_in_v9() -> None:
    def roughness(family: str) -> float:
        found = []
        for seed in range(4):
            frame = next(iter_frames(family, seed, SIZE, 1))
            grey = cv2.cvtColor(frame.rgb, cv2.COLOR_RGB2GRAY).astype(np.float64)
            bottom = np.zeros(frame.ids.shape, bool)
            bottom[130:] = True
            ground = cv2.erode((bottom & (frame.ids == 1)).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
            slope = np.abs(cv2.Laplacian(cv2.GaussianBlur(grey, (0, 0), 2), cv2.CV_64F))
            found.append(float(np.mean(slope[ground])) / float(grey[ground].mean()))
        return float(np.median(found))

    assert roughness("v10") > 2 * roughness("v9")
