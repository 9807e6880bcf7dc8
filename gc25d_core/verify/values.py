"""What the arrays of one clip must hold, alone and against each other: shapes, dtypes, ranges, and numbers counted anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import cv2
import numpy as np

from gc25d_core.plan import ClipPlan
from gc25d_core.verify.raw_source import nearest

Arrays = dict[str, dict[str, np.ndarray]]
"""By kind, by name."""
Deviation = tuple[int | None, str]
"""(absolute frame or None, what)."""

MOST_LATENT = 100.0
"""Normalised latents are about 1 in size; beyond this something is broken."""
_COND_VALUES = np.zeros(256, bool)
_COND_VALUES[[*range(7), *range(12, 22)]] = True


def shape_deviations(arrays: Arrays, plan: ClipPlan, size: tuple[int, int]) -> Iterator[Deviation]:
    """Members, dtypes and shapes of every file, by the format's table."""
    w, h = size
    f = 109 if plan.has_ext else 81
    a = len(plan.actions[0]) if plan.actions else 0
    wanted: dict[str, dict[str, tuple[str, tuple[int | None, ...]]]] = {
        "latents": {
            "latent": ("u2", (48, 21, h // 16, w // 16)),
            "actions_block": ("u1", (27 if plan.has_ext else 20, a)),
            "frames": ("i4", (81,)),
        },
        "cond": {"parts": ("u1", (81, h, w))},
        "cond_ext": {"parts": ("u1", (28, h, w))},
        "meta": {
            "frames": ("i4", (f,)), "capsules": ("f4", (f, None, 8)), "K": ("f8", (f, 3, 3)),
            "world_to_camera": ("f8", (f, 4, 4)), "ground_z": ("f4", (f,)), "player_px": ("i4", (f,)),
            "boss_px": ("i4", (f,)), "class_px": ("i4", (f, 22)), "static_change": ("f4", (f - 1,)),
            "dead": ("b1", (f,)), "bot_mode": ("U", (f,)), "geometry": ("U", ()),
        },
    }  # fmt: skip
    for kind, members in arrays.items():
        if members.keys() != wanted[kind].keys():
            yield None, f"{kind} holds {sorted(members)}, expected {sorted(wanted[kind])}"
            continue
        for name, array in members.items():
            dtype, shape = wanted[kind][name]
            kind_ok = array.dtype.kind == "U" if dtype == "U" else array.dtype == np.dtype(dtype)
            shape_ok = array.ndim == len(shape) and all(
                w is None or w == g for w, g in zip(shape, array.shape, strict=True)
            )
            if not (kind_ok and shape_ok):
                yield None, f"{kind}: {name} is {array.dtype} {list(array.shape)}, expected {dtype} {list(shape)}"


def value_deviations(
    arrays: Arrays, plan: ClipPlan, *, image_size: tuple[int, int], size: tuple[int, int]
) -> Iterator[Deviation]:
    """Ranges and numbers. Shapes must have passed. `image_size` and `size` are (width, height) of source and target."""
    yield from _latents(arrays["latents"], plan)
    parts = arrays["cond"]["parts"]
    if plan.has_ext:
        parts = np.concatenate([parts, arrays["cond_ext"]["parts"]])
    yield from _counts(parts, arrays["meta"], plan.s)
    yield from _metadata(arrays["meta"], plan, image_size, size)


def _latents(a: dict[str, np.ndarray], plan: ClipPlan) -> Iterator[Deviation]:
    values = (a["latent"].astype(np.uint32) << 16).view(np.float32)
    if not np.isfinite(values).all():
        k = int(np.argwhere(~np.isfinite(values))[0][1])
        yield None, f"latent: {int((~np.isfinite(values)).sum())} values are not finite, first in cell {k}"
    elif np.abs(values).max() > MOST_LATENT:
        yield None, f"latent: a value of {float(np.abs(values).max()):.4g}, expected at most {MOST_LATENT:g}"
    elif np.ptp(values) == 0:
        yield None, f"latent: every value is {float(values.flat[0]):.4g}"
    if a["actions_block"].tolist() != plan.actions:
        j = next(j for j, (x, y) in enumerate(zip(a["actions_block"].tolist(), plan.actions, strict=True)) if x != y)
        yield None, f"actions_block: row {j} is not the plan's"
    yield from _frames("latents", a["frames"], plan.s)


def _frames(kind: str, frames: np.ndarray, s: int) -> Iterator[Deviation]:
    wrong = np.flatnonzero(frames != np.arange(s, s + len(frames)))
    if len(wrong):
        i = int(wrong[0])
        yield s + i, f"{kind}: frames[{i}] is {int(frames[i])}, expected {s + i}"


def _counts(parts: np.ndarray, meta: dict[str, np.ndarray], s: int) -> Iterator[Deviation]:
    """Every number in `meta` that can be counted in the part maps, counted with cv2 and numpy instead of our kernels."""
    previous = None
    for i, frame in enumerate(parts):
        counts = cv2.calcHist([frame.reshape(1, -1)], [0], None, [256], [0, 256]).reshape(-1).astype(np.int64)
        bad = np.flatnonzero((counts > 0) & ~_COND_VALUES)
        if len(bad):
            yield s + i, f"cond: ids {bad.tolist()}, expected 0..6 and 12..21"
        stored = meta["class_px"][i]
        if (counts[:22] != stored).any():
            k = int(np.flatnonzero(counts[:22] != stored)[0])
            yield s + i, f"meta: class_px of id {k} is {int(stored[k])}, cond has {int(counts[k])} pixels of it"
        for name, first in (("player_px", 12), ("boss_px", 17)):
            if int(meta[name][i]) != int(counts[first : first + 5].sum()):
                yield s + i, f"meta: {name} is {int(meta[name][i])}, cond has {int(counts[first : first + 5].sum())}"
        if previous is not None:
            change = _changed_share(previous, frame)
            if abs(float(meta["static_change"][i - 1]) - change) > 1e-6:
                yield (
                    s + i,
                    f"meta: static_change[{i - 1}] is {float(meta['static_change'][i - 1]):.6f}, cond says {change:.6f}",
                )
        previous = frame


def _changed_share(before: np.ndarray, after: np.ndarray) -> float:
    static = (before < 7) & (after < 7)
    n = int(np.count_nonzero(static))
    return int(np.count_nonzero(static & (before != after))) / n if n else 0.0


def _metadata(
    m: dict[str, np.ndarray], plan: ClipPlan, image_size: tuple[int, int], size: tuple[int, int]
) -> Iterator[Deviation]:
    yield from _frames("meta", m["frames"], plan.s)
    yield from _geometry(str(m["geometry"]), image_size, size)
    part, padding = m["capsules"][..., 7], np.isnan(m["capsules"][..., 0])
    for i in range(len(part)):
        real = m["capsules"][i][~padding[i]]
        if not np.isnan(m["capsules"][i][padding[i]][:, :7]).all() or part[i][padding[i]].any():
            yield plan.s + i, "meta: padding of capsules is not NaN with part 0"
        elif not np.isfinite(real).all() or not np.isin(real[:, 7], np.arange(12, 22)).all() or (real[:, 6] <= 0).any():
            yield plan.s + i, "meta: a capsule is not finite, has a radius <= 0 or no part id 12..21"
        k, pose = m["K"][i], m["world_to_camera"][i]
        skew = (k[0, 1], k[1, 0], *k[2])
        if not np.isfinite(k).all() or skew != (0, 0, 0, 0, 1) or k[0, 0] <= 0 or k[1, 1] <= 0:
            yield plan.s + i, f"meta: K is {k.tolist()}, expected [[fx,0,cx],[0,fy,cy],[0,0,1]]"
        if not np.isfinite(pose).all() or tuple(pose[3]) != (0, 0, 0, 1):
            yield plan.s + i, "meta: world_to_camera is not finite or its last row is not 0 0 0 1"
        ground, stored = lowest_point(real), float(m["ground_z"][i])
        if not (np.isnan(ground) and np.isnan(stored)) and not abs(ground - stored) <= 1e-3 + 1e-6 * abs(ground):
            yield plan.s + i, f"meta: ground_z is {stored}, the capsules say {ground}"


def _geometry(text: str, image_size: tuple[int, int], size: tuple[int, int]) -> Iterator[Deviation]:
    try:
        g: dict[str, Any] = json.loads(text)
        x0, y0, cw, ch = g["crop"]
        factor = Fraction(*g["factor"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as e:
        yield None, f"meta: geometry {text!r} cannot be read ({e})"
        return
    columns, _ = nearest(image_size, size)
    mine = [x0 + (2 * i + 1) * factor.numerator // (2 * factor.denominator) for i in (0, size[0] - 1)]
    if [g.get("source"), g.get("target")] != [list(image_size), list(size)] or mine != [
        int(columns[0]),
        int(columns[-1]),
    ]:
        yield None, f"meta: geometry {text} is not that of {image_size} to {size}"
    elif (
        (cw, ch) != (factor * size[0], factor * size[1]) or y0 * 2 + ch != image_size[1] or x0 * 2 + cw != image_size[0]
    ):
        yield None, f"meta: geometry {text} is not a centre crop in whole pixels"


def lowest_point(capsules: np.ndarray) -> float:
    """Lowest z of endpoint minus radius over the player's rows of float32 [N,8], cm; NaN without any."""
    mine = capsules[(capsules[:, 7] >= 12) & (capsules[:, 7] <= 16)].astype(np.float64)
    return float((np.minimum(mine[:, 2], mine[:, 5]) - mine[:, 6]).min()) if len(mine) else float("nan")


def centroid_moves(capsules: np.ndarray) -> float:
    """Largest move of the player's capsule centroid between neighbouring frames, cm, from float32 [F,N,8]; 0 without one."""
    mine = (capsules[..., 7] >= 12) & (capsules[..., 7] <= 16)
    ends = np.where(mine[..., None], capsules[..., 0:3].astype(np.float64) + capsules[..., 3:6], 0.0)
    n = mine.sum(axis=1)
    centre = ends.sum(axis=1) / np.maximum(2 * n, 1)[:, None]
    moves = np.sqrt((np.diff(centre, axis=0) ** 2).sum(axis=1))
    return float(moves[(n[1:] > 0) & (n[:-1] > 0)].max(initial=0.0))
