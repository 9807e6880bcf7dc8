"""From source pixels to target pixels: one centre crop in whole pixels, one scale factor for both axes.

Conventions: images are [H, W]; sizes are given as (width, height); pixel (column i, row j) has its centre at
(i + 0.5, j + 0.5). Nearest picks source index floor((i + 0.5) f) inside the crop.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

VAE_STRIDE = 16
"""Pixels per latent cell side; a target side must be a multiple."""


@dataclass(frozen=True)
class Geometry:
    """How images of size `source` become images of size `target`. Build it with `Geometry.fit`."""

    source: tuple[int, int]
    target: tuple[int, int]
    crop: tuple[int, int, int, int]
    """(x0, y0, width, height) in source pixels."""
    factor: Fraction
    """Source pixels per target pixel, >= 1, the same on both axes."""

    @classmethod
    def fit(cls, source: tuple[int, int], target: tuple[int, int]) -> Geometry:
        """The largest centre crop of `source` with the aspect of `target`.

        Raises:
            ValueError: the target is not a multiple of 16, would enlarge, or its crop is not in whole pixels and
                centred; the message names the nearest targets that fit.
        """
        problem = _problem(source, target)
        if problem is not None:
            near = nearest_targets(source, target)
            fits = ", ".join(f"{w}x{h}" for w, h in near) or "none"
            raise ValueError(
                f"target {target[0]}x{target[1]} does not fit source {source[0]}x{source[1]}: {problem}; nearest sizes that fit: {fits}"
            )
        f = _factor(source, target)
        cw, ch = int(f * target[0]), int(f * target[1])
        return cls(source, target, ((source[0] - cw) // 2, (source[1] - ch) // 2, cw, ch), f)

    @cached_property
    def columns(self) -> np.ndarray:
        """Source column that nearest picks for each target column, int64 [W]."""
        return _nearest(self.target[0], self.factor) + self.crop[0]

    @cached_property
    def rows(self) -> np.ndarray:
        """Source row that nearest picks for each target row, int64 [H]."""
        return _nearest(self.target[1], self.factor) + self.crop[1]

    def intrinsics(self, fx: float, fy: float, cx: float, cy: float) -> np.ndarray:
        """K of the target image, float64 [3,3], from intrinsics in source pixels."""
        f = float(self.factor)
        x0, y0 = self.crop[:2]
        return np.array([[fx / f, 0.0, (cx - x0) / f], [0.0, fy / f, (cy - y0) / f], [0.0, 0.0, 1.0]])

    def to_json(self) -> dict[str, Any]:
        return {
            "source": list(self.source),
            "target": list(self.target),
            "crop": list(self.crop),
            "factor": [self.factor.numerator, self.factor.denominator],
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Geometry:
        (sw, sh), (tw, th), (x, y, w, h) = row["source"], row["target"], row["crop"]
        return cls((sw, sh), (tw, th), (x, y, w, h), Fraction(*row["factor"]))


def _nearest(n: int, f: Fraction) -> np.ndarray:
    i = np.arange(n, dtype=np.int64)
    return ((2 * i + 1) * f.numerator) // (2 * f.denominator)


def _factor(source: tuple[int, int], target: tuple[int, int]) -> Fraction:
    return min(Fraction(source[0], target[0]), Fraction(source[1], target[1]))


def _problem(source: tuple[int, int], target: tuple[int, int]) -> str | None:
    if min(*source, *target) < 1:
        return "a side is less than 1 pixel"
    if target[0] % VAE_STRIDE or target[1] % VAE_STRIDE:
        return f"both target sides must be multiples of {VAE_STRIDE}"
    f = _factor(source, target)
    if f < 1:
        return "it would enlarge"
    cw, ch = f * target[0], f * target[1]
    if cw.denominator != 1 or ch.denominator != 1:
        return f"its crop would be {float(cw):.2f}x{float(ch):.2f}, not whole pixels"
    if (source[0] - int(cw)) % 2 or (source[1] - int(ch)) % 2:
        return f"its crop of {int(cw)}x{int(ch)} cannot be centred in whole pixels"
    return None


def nearest_targets(source: tuple[int, int], target: tuple[int, int], count: int = 3) -> list[tuple[int, int]]:
    """Up to `count` targets that fit `source`, nearest to `target` by the sum of relative side differences."""
    fits = [
        (w, h)
        for w in range(VAE_STRIDE, source[0] + 1, VAE_STRIDE)
        for h in range(VAE_STRIDE, source[1] + 1, VAE_STRIDE)
        if _problem(source, (w, h)) is None
    ]
    tw, th = max(target[0], 1), max(target[1], 1)
    fits.sort(key=lambda s: (abs(s[0] - tw) / tw + abs(s[1] - th) / th, s))
    return fits[:count]
