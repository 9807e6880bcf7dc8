"""The capsules of one frame: the two characters' bodies as segments with a radius, in world centimetres."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gc25d_core import capsule_kernels
from gc25d_core.classes import FIRST_PART, PART_ID, PARTS

Record = tuple[str, str, Sequence[float], Sequence[float], float]
"""(owner, part, a [3], b [3], radius), as the source's json gives a capsule."""

ROW = 8
"""float32 columns of one stored capsule: a (3), b (3), radius, part id."""


@dataclass(frozen=True, eq=False)
class Capsules:
    """N capsules as a struct of arrays, in the source's order (the order decides ties). All arrays are read-only.

    A capsule is every point within `radius` of the segment a..b; a == b is a sphere.

    Raises:
        ValueError: shapes disagree, a number is not finite, a radius is not > 0, or a part id is not 12..21.
    """

    a: np.ndarray
    """float64 [N,3], cm."""
    b: np.ndarray
    """float64 [N,3], cm."""
    radius: np.ndarray
    """float64 [N], cm, > 0."""
    part: np.ndarray
    """uint8 [N], ids 12..16 player, 17..21 boss."""

    def __post_init__(self) -> None:
        part = np.asarray(self.part)
        n = part.size
        for name, shape in (("a", (n, 3)), ("b", (n, 3)), ("radius", (n,))):
            array = np.array(getattr(self, name), np.float64)
            if array.shape != shape and not (n == 0 and array.size == 0):
                raise ValueError(f"capsules: {name} has shape {array.shape}, expected {shape} for {n} part ids")
            array = array.reshape(shape)
            if not np.isfinite(array).all():
                j = int(np.flatnonzero(~np.isfinite(array).reshape(n, -1).all(axis=1))[0])
                raise ValueError(f"capsule {j}: got {name} = {array[j].tolist()}, expected finite numbers")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if (bad := self.radius <= 0).any():
            j = int(np.flatnonzero(bad)[0])
            raise ValueError(f"capsule {j}: got radius {self.radius[j]}, expected > 0 cm")
        if (bad := ~np.isin(part, list(PART_ID.values()))).any():
            j = int(np.flatnonzero(bad)[0])
            raise ValueError(f"capsule {j}: got part id {part[j]}, expected 12..21")
        part = part.reshape(n).astype(np.uint8)
        part.setflags(write=False)
        object.__setattr__(self, "part", part)

    def __len__(self) -> int:
        return len(self.part)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> Capsules:
        """Capsules from (owner, part, a, b, radius). An unknown owner or part is a ValueError that names it."""
        rows = list(records)
        part = np.empty(len(rows), np.uint8)
        for j, (owner, name, *_) in enumerate(rows):
            if (owner, name) not in PART_ID:
                raise ValueError(
                    f"capsule {j}: got owner {owner!r}, part {name!r}, expected player or boss and one of {', '.join(PARTS)}"
                )
            part[j] = PART_ID[owner, name]
        a, b, radius = ([row[i] for row in rows] for i in (2, 3, 4))
        return cls(np.array(a, np.float64), np.array(b, np.float64), np.array(radius, np.float64), part)

    @classmethod
    def from_rows(cls, rows: np.ndarray) -> Capsules:
        """Capsules from stored rows float32 [N,8]; rows of part 0 or of NaN alone (the padding) are dropped."""
        rows = np.asarray(rows)
        if rows.ndim != 2 or rows.shape[1] != ROW:
            raise ValueError(f"capsule rows: got shape {rows.shape}, expected [N, {ROW}]")
        rows = rows[~(np.isnan(rows).all(axis=1) | (rows[:, 7] == 0))].astype(np.float64)
        return cls(rows[:, 0:3], rows[:, 3:6], rows[:, 6], rows[:, 7])

    def to_float32_rows(self) -> np.ndarray:
        """float32 [N,8]: a, b, radius, part id."""
        return np.column_stack([self.a, self.b, self.radius, self.part]).astype(np.float32)

    def owner_mask(self, owner: str) -> np.ndarray:
        """Which capsules belong to `owner` ("player" or "boss"), bool [N]."""
        first = FIRST_PART[owner]
        return (self.part >= first) & (self.part < first + len(PARTS))

    def kernel_rows(self, origin: np.ndarray) -> np.ndarray:
        """What `capsule_kernels` take, float64 [N,8]: a - origin, b - a, radius, part id."""
        return np.column_stack([self.a - origin, self.b - self.a, self.radius, self.part])


def stack_rows(frames: Sequence[Capsules]) -> np.ndarray:
    """Stored form of several frames, float32 [F,N,8] with N the largest count, padded with NaN and part 0."""
    out = np.full((len(frames), max(map(len, frames), default=0), ROW), np.nan, np.float32)
    out[:, :, 7] = 0
    for f, capsules in enumerate(frames):
        out[f, : len(capsules)] = capsules.to_float32_rows()
    return out


def first_hits(capsules: Capsules, *, origin: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First hit and surface distance of one ray with every capsule.

    Args:
        origin: [3], cm. direction: [3], any length > 0.

    Returns:
        t: float64 [N], cm from `origin` to the first point of the capsule on the FORWARD ray. 0 where the ray starts inside
            the capsule or on it (a camera inside a body sees that body); inf where it misses.
        gap: float64 [N], distance of the forward ray to the segment minus the radius; <= 0 exactly where t is finite.
    """
    d = np.asarray(direction, np.float64)
    out = capsule_kernels.hits(capsules.kernel_rows(origin), d / np.linalg.norm(d))
    return out[:, 0], out[:, 1]
