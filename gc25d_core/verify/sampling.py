"""Which clips the deep checks look at: the same ones for the same index, spread over what differs between clips."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gc25d_core.rows import SOURCE_ERROR, Row

_TRAITS = (
    "family",
    "has_ext",
    "ext_look_change",
    "run",
    "mirrored_world",
    "drop_reason",
    "scene",
    "camera_variant",
    "look",
)
"""What a sample should show both or all sides of, the most telling first."""


def spot_rows(rows: Sequence[Row], count: int) -> list[Row]:
    """Up to `count` clips that have files; each next one shows the most that the ones before do not.

    A trait counts by its place in `_TRAITS`; ties go to the smallest hash of the clip's name, so that the choice depends on
    neither the order of the rows nor their number more than it must.
    """
    left = sorted((r for r in rows if r.drop_reason != SOURCE_ERROR), key=_lot)
    seen: set[tuple[str, object]] = set()
    chosen: list[Row] = []
    while left and len(chosen) < count:
        best = max(left, key=lambda r: _news(r, seen))  # the first of equals: the smallest lot
        left.remove(best)
        chosen.append(best)
        seen |= {(t, getattr(best, t)) for t in _TRAITS}
    return chosen


def _news(row: Row, seen: set[tuple[str, object]]) -> tuple[int, ...]:
    new = [(t, getattr(row, t)) not in seen for t in _TRAITS]
    # Family, extension and look change are what the checks differ by; after them the number of new traits decides.
    return (sum(new[:3]), *map(int, new[:3]), sum(new))


def _lot(row: Row) -> str:
    return hashlib.sha256(row.clip.encode()).hexdigest()
