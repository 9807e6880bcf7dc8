"""The recording read a second way: `tarfile`, plain `json`, cv2; no index, no cache, no decoder of `gc25d_core.source`."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np

_SUFFIX = {"jpg": ".jpg", "ids": ".ids.png", "json": ".json"}


class RawRun:
    """Members of one run, found by walking its shards with `tarfile`."""

    def __init__(self, src: Path, run: str) -> None:
        self.folder = src / run
        self.info: dict[str, Any] = json.loads((self.folder / "run.json").read_bytes())
        lines = (self.folder / "blocks.jsonl").read_bytes().splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        self.blocks: dict[int, dict[str, Any]] = {row["block"]: row for row in rows}
        self._where: dict[str, tuple[str, int, int]] = {}
        for name in sorted(n for n in os.listdir(self.folder) if n.startswith("shard-") and n.endswith(".tar")):
            self._walk(name)

    def _walk(self, shard: str) -> None:
        """Note the members of a shard; where it is cut, those before the cut."""
        with tarfile.open(self.folder / shard, "r:") as tar:
            while True:
                try:
                    member = tar.next()
                except tarfile.TarError:
                    return
                if member is None:
                    return
                if member.isreg():
                    self._where[member.name.removeprefix("./")] = (shard, member.offset_data, member.size)

    def has(self, frame: int, kind: str) -> bool:
        return f"{frame:06d}{_SUFFIX[kind]}" in self._where

    def read(self, frame: int, kind: str) -> bytes:
        """A member's bytes; KeyError if the run has none."""
        shard, offset, size = self._where[f"{frame:06d}{_SUFFIX[kind]}"]
        with open(self.folder / shard, "rb") as f:
            f.seek(offset)
            return f.read(size)

    def record(self, frame: int) -> dict[str, Any]:
        """The frame's json."""
        return json.loads(self.read(frame, "json"))

    def ids(self, frame: int) -> np.ndarray:
        """Raw ids at full resolution, uint8 [h,w]."""
        image = cv2.imdecode(np.frombuffer(self.read(frame, "ids"), np.uint8), cv2.IMREAD_UNCHANGED)
        if image is None or image.dtype != np.uint8 or image.ndim != 2:
            raise ValueError(f"ids of frame {frame} do not decode to 8-bit grey")
        return image

    def rgb(self, frame: int) -> np.ndarray:
        """The picture at full resolution, uint8 [h,w,3] RGB."""
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        image = cv2.imdecode(np.frombuffer(self.read(frame, "jpg"), np.uint8), flags)
        if image is None:
            raise ValueError(f"the picture of frame {frame} does not decode")
        return image[..., ::-1]


def nearest(source: tuple[int, int], target: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Source columns [W] and rows [H] that nearest picks inside the centre crop, from the two sizes (width, height) alone."""
    (sw, sh), (tw, th) = source, target
    if sw * th <= sh * tw:  # the width decides: f = sw / tw
        cw, ch = sw, sw * th // tw
    else:
        cw, ch = sh * tw // th, sh
    x, y = np.arange(tw), np.arange(th)
    return (sw - cw) // 2 + (2 * x + 1) * cw // (2 * tw), (sh - ch) // 2 + (2 * y + 1) * ch // (2 * th)


def area(image: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """The centre crop of uint8 [h,w,3] at target size by area, float64 [H,W,3]: exact overlaps as two matrix products."""
    h, w = image.shape[:2]
    columns, rows = nearest((w, h), target)
    f = w / target[0] if w * target[1] <= h * target[0] else h / target[1]
    across, down = _overlaps(w, target[0], f), _overlaps(h, target[1], f)
    assert len(columns) == target[0] and len(rows) == target[1]
    return np.einsum("yh,hwc,xw->yxc", down, image.astype(np.float64), across, optimize=True)


def _overlaps(n: int, m: int, f: float) -> np.ndarray:
    """Share of each of `n` source pixels in each of `m` target pixels of width `f`, centred, [m,n]."""
    start = (n - m * f) / 2 + f * np.arange(m)[:, None]
    pixel = np.arange(n)[None, :]
    return np.clip(np.minimum(start + f, pixel + 1) - np.maximum(start, pixel), 0, None) / f
