"""Crop, factor and nearest picks against hand-computed numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gc25d_core.geometry import Geometry


@pytest.mark.parametrize(
    ("source", "target", "crop"),
    [
        ((1280, 720), (832, 480), (16, 0, 1248, 720)),
        ((640, 360), (416, 240), (8, 0, 624, 360)),
        ((96, 48), (64, 32), (0, 0, 96, 48)),
    ],
)
def test_documented_sizes(source, target, crop):
    g = Geometry.fit(source, target)
    assert g.crop == crop
    assert g.factor == Fraction(3, 2)


def test_nearest_picks_are_floor_of_the_half_pixel_position():
    g = Geometry.fit((1280, 720), (832, 480))
    assert g.columns[:6].tolist() == [16 + k for k in (0, 2, 3, 5, 6, 8)]
    assert g.rows[-1] == 719 and g.columns[-1] == 16 + 1247


def test_intrinsics_move_with_the_crop_and_shrink_with_the_factor():
    K = Geometry.fit((1280, 720), (832, 480)).intrinsics(900.0, 960.0, 640.0, 360.0)
    assert K.tolist() == [[600.0, 0.0, 416.0], [0.0, 640.0, 240.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("target", "why"),
    [((832, 464), "crop"), ((1296, 720), "enlarge"), ((830, 480), "multiples of 16"), ((0, 16), "less than 1")],
)
def test_what_does_not_fit_is_refused_with_sizes_that_do(target, why):
    with pytest.raises(ValueError, match=why) as e:
        Geometry.fit((1280, 720), target)
    nearest = str(e.value).rsplit("fit: ", 1)[1].split(", ")
    assert len(nearest) == 3
    for size in nearest:
        w, h = map(int, size.split("x"))
        Geometry.fit((1280, 720), (w, h))


@given(
    st.sampled_from([(1280, 720), (640, 360), (1920, 1080), (96, 48), (512, 512)]),
    st.integers(1, 60),
    st.integers(1, 40),
)
def test_whatever_fits_is_centred_in_whole_pixels_and_survives_json(source, w, h):
    try:
        g = Geometry.fit(source, (16 * w, 16 * h))
    except ValueError:
        return
    x, y, cw, ch = g.crop
    assert (2 * x + cw, 2 * y + ch) == source
    assert (cw, ch) == (g.factor * 16 * w, g.factor * 16 * h) and g.factor >= 1
    for picks, start, size in ((g.columns, x, cw), (g.rows, y, ch)):
        assert picks[0] >= start and picks[-1] < start + size and np.all(np.diff(picks) >= 1)
    assert Geometry.from_json(g.to_json()) == g
