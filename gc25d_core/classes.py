"""Ids: static classes, characters, body parts, their names and display colours.

Raw ids (`ids.png`): 0..6 static, 10 player, 11 boss. In `cond` a character's pixels carry its body parts instead:
player 12..16, boss 17..21, in the order of `PARTS`.
"""

from __future__ import annotations

import numpy as np

STATIC = ("sky", "ground", "vegetation", "rock", "water", "structure", "prop")
N_STATIC = len(STATIC)
PLAYER = 10
BOSS = 11
OWNERS = ("player", "boss")
OWNER_ID = {"player": PLAYER, "boss": BOSS}
PARTS = ("head", "torso", "arms", "legs", "weapon")
FIRST_PART = {"player": 12, "boss": 17}
PART_ID = {(o, p): FIRST_PART[o] + i for o in OWNERS for i, p in enumerate(PARTS)}
N_IDS = 22

NAMES: dict[int, str] = {
    **dict(enumerate(STATIC)),
    PLAYER: "player",
    BOSS: "boss",
    **{v: f"{o} {p}" for (o, p), v in PART_ID.items()},
}

RAW_IDS = (*range(N_STATIC), PLAYER, BOSS)
"""The only values an `ids.png` may hold."""

_RAW_OK = np.zeros(256, bool)
_RAW_OK[list(RAW_IDS)] = True
_COND_OK = np.zeros(256, bool)
_COND_OK[[*range(N_STATIC), *PART_ID.values()]] = True
_COLLAPSE = np.arange(256, dtype=np.uint8)
for (_o, _p), _v in PART_ID.items():
    _COLLAPSE[_v] = OWNER_ID[_o]

PALETTE = np.zeros((256, 3), np.uint8)
"""RGB display colour by id, uint8 [256,3]."""
for _k, _rgb in {
    0: (135, 190, 235), 1: (150, 120, 80), 2: (60, 130, 60), 3: (120, 120, 125), 4: (40, 90, 170),
    5: (190, 175, 150), 6: (200, 140, 60), 10: (240, 240, 240), 11: (90, 20, 90),
    12: (255, 220, 60), 13: (230, 60, 50), 14: (250, 140, 40), 15: (60, 200, 220), 16: (245, 245, 245),
    17: (190, 120, 255), 18: (140, 40, 160), 19: (220, 80, 200), 20: (90, 80, 220), 21: (255, 170, 210),
}.items():  # fmt: skip
    PALETTE[_k] = _rgb


def invalid_raw_ids(ids: np.ndarray) -> list[int]:
    """Values of a raw id image that no raw id may have, sorted. Empty if all are valid."""
    present = np.flatnonzero(np.bincount(ids.reshape(-1), minlength=256))
    return [int(v) for v in present if not _RAW_OK[v]]


def invalid_cond_ids(parts: np.ndarray) -> list[int]:
    """Values of a `cond` map that no condition may have (raw 10 and 11 included), sorted."""
    present = np.flatnonzero(np.bincount(parts.reshape(-1), minlength=256))
    return [int(v) for v in present if not _COND_OK[v]]


def collapse_parts(parts: np.ndarray) -> np.ndarray:
    """12..16 -> 10 (player), 17..21 -> 11 (boss), every other id as it is. uint8, same shape."""
    return _COLLAPSE[parts]
