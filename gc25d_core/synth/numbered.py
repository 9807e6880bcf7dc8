"""Tiny runs for tests: every picture, id map, json and block says which frame or block it is.

The upper half of a frame holds a pure red block (left), 20 black or white blocks (the frame number's bits, highest
first, two rows of ten) and a pure blue block (right). The id map has the same grid: ground for 0, rock for 1. Both
survive JPEG, a small centre crop and shrinking. In the lower half player and boss, five parts each, stand at places
that depend on the frame; their ids are drawn from the capsules of the json.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gc25d_core.classes import BOSS, PARTS, PLAYER
from gc25d_core.frames import BLOCK
from gc25d_core.synth.encode import frame_members
from gc25d_core.synth.mesh import CAPSULE_TRIANGLES, capsule_vertices
from gc25d_core.synth.raster import clear_buffers, rasterise
from gc25d_core.synth.shards import new_run_folder, write_run_files, write_shards

BITS = 20
_COLUMNS, _ROWS = 12, 4
_SKY, _GROUND, _ROCK = 0, 1, 3
_DEPTH = 100.0  # cm
_LOOKING_ALONG_Y = np.array([[1.0, 0, 0, 0], [0, 0, -1.0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1.0]])

U8 = NDArray[np.uint8]
#: Gets (frame, kind, bytes), kind "jpg", "ids.png" or "json"; returns the bytes to write, None to leave the member out.
MemberHook = Callable[[int, str, bytes], bytes | None]


def _block(image: U8, row: int, column: int, *, margin: float = 0.0) -> U8:
    height, width = image.shape[:2]
    top, bottom = (row + margin) * height / _ROWS, (row + 1 - margin) * height / _ROWS
    left, right = (column + margin) * width / _COLUMNS, (column + 1 - margin) * width / _COLUMNS
    return image[round(top) : round(bottom), round(left) : round(right)]


def _bit_blocks() -> list[tuple[int, int]]:
    return [(bit // 10, 1 + bit % 10) for bit in range(BITS)]


def frame_number_of_rgb(rgb: U8) -> int:
    """The frame number that a picture, uint8 [H, W, 3] of any size from 48x24 on, shows."""
    light = [bool(_block(rgb, row, column, margin=0.3).mean() > 127) for row, column in _bit_blocks()]
    return int("".join("01"[bit] for bit in light), 2)


def frame_number_of_ids(ids: U8) -> int:
    """The frame number that an id map or a condition map, uint8 [H, W], shows."""
    rock = [bool((_block(ids, row, column, margin=0.3) == _ROCK).mean() > 0.5) for row, column in _bit_blocks()]
    return int("".join("01"[bit] for bit in rock), 2)


def is_rgb_order(rgb: U8) -> bool:
    """True where the left block is red and the right one blue: channels in RGB order, picture not mirrored."""
    left, right = (_block(rgb, 0, column, margin=0.3).reshape(-1, 3).mean(axis=0) for column in (0, _COLUMNS - 1))
    return bool(left[0] > 200 and left[2] < 60 and right[2] > 200 and right[0] < 60)


def block_number_of_actions(actions: Sequence[int] | U8) -> int:
    """The block number that a block's actions, uint8 [8], hold in their first three bytes, lowest first."""
    return sum(int(value) << (8 * place) for place, value in enumerate(actions[:3]))


def _actions(block: int) -> list[int]:
    return [block & 255, (block >> 8) & 255, (block >> 16) & 255, 0, 0, 0, 0, 7]


def _capsules(frame: int, size: tuple[int, int]) -> list[dict[str, Any]]:
    """Five upright capsules a character in the lower half; player left, boss right, moved sideways by the frame."""
    width, height = size
    scale = _DEPTH / width
    found = []
    for owner, home, shift in (("player", 0.10, frame * 7 % 16 / 16), ("boss", 0.56, frame * 3 % 8 / 8)):
        for place, part in enumerate(PARTS):
            x = (home + 0.15 * shift + 0.045 * place - 0.5) * width * scale
            z = -0.25 * height * scale
            reach = 0.0 if part == "head" else 0.09 * height * scale
            found.append({"owner": owner, "part": part, "a": [x, _DEPTH, z + reach], "b": [x, _DEPTH, z - reach],
                          "radius": 0.026 * width * scale})  # fmt: skip
    return found


def _camera(size: tuple[int, int]) -> dict[str, Any]:
    width, height = size
    return {"fx": float(width), "fy": float(width), "cx": width / 2, "cy": height / 2,
            "world_to_camera": _LOOKING_ALONG_Y.tolist()}  # fmt: skip


def numbered_frame(frame: int, *, size: tuple[int, int] = (96, 48)) -> tuple[U8, U8, dict[str, Any]]:
    """(picture uint8 [H, W, 3], ids uint8 [H, W], json object) of a numbered frame at size (W, H).

    Raises:
        ValueError: a frame number that 20 bits do not hold.
    """
    if not 0 <= frame < 1 << BITS:
        raise ValueError(f"a numbered frame is 0 .. {(1 << BITS) - 1}, got {frame}")
    width, height = size
    rgb = np.full((height, width, 3), 128, np.uint8)
    ids = np.full((height, width), _SKY, np.uint8)
    ids[height // 2 :] = _GROUND
    for row in (0, 1):
        _block(rgb, row, 0)[:] = (255, 0, 0)
        _block(rgb, row, _COLUMNS - 1)[:] = (0, 0, 255)
    for place, (row, column) in enumerate(_bit_blocks()):
        bit = frame >> (BITS - 1 - place) & 1
        _block(rgb, row, column)[:] = 255 * bit
        _block(ids, row, column)[:] = _ROCK if bit else _GROUND

    capsules, camera = _capsules(frame, size), _camera(size)
    a, b = (np.array([c[end] for c in capsules]) for end in "ab")
    inverse_depth, triangle_index = np.empty((height, width)), np.empty((height, width), np.int32)
    clear_buffers(inverse_depth, triangle_index)
    intrinsics = np.array([camera[name] for name in ("fx", "fy", "cx", "cy")])
    for place, shell in enumerate(capsule_vertices(a, b, np.array([c["radius"] for c in capsules]))):
        first = place * len(CAPSULE_TRIANGLES)
        rasterise(shell, CAPSULE_TRIANGLES, first, _LOOKING_ALONG_Y, intrinsics, inverse_depth, triangle_index)
    owner = np.array([PLAYER if c["owner"] == "player" else BOSS for c in capsules], np.uint8)
    drawn = triangle_index >= 0
    ids[drawn] = owner[triangle_index[drawn] // len(CAPSULE_TRIANGLES)]
    rgb[ids == PLAYER] = (60, 200, 90)
    rgb[ids == BOSS] = (150, 60, 160)
    value = {
        "frame": frame,
        "episode": 1,
        "camera_variant": "fixed",
        "look": {"biome": "test", "lighting": "flat"},
        "mirrored_world": False,
        "bot_mode": "scripted",
        "dead": False,
        "camera": camera,
        "capsules": capsules,
    }
    return rgb, ids, value


def write_numbered_run(
    root: Path | str,
    run: str,
    *,
    n_frames: int,
    clip_starts: Sequence[int],
    size: tuple[int, int] = (96, 48),
    first_frame: int = 0,
    family: str = "v9",
    scene: tuple[int, str] = (1, "valley"),
    missing_frames: Collection[int] = (),
    missing_blocks: Collection[int] = (),
    json_changes: Callable[[int], dict[str, Any]] | None = None,
    member_hook: MemberHook | None = None,
    members_per_shard: int = 100,
    shuffle_seed: int | None = None,
) -> Path:
    """Writes a run whose frames say their number, and returns its folder `root/run`.

    Args:
        root: the source's folder; made if missing.
        run: the run's name.
        n_frames: frames first_frame .. first_frame + n_frames - 1 are written (less `missing_frames`).
        clip_starts: what `run.json` lists; not checked, so that tests can list nonsense.
        size: (W, H) in px, at least 48x24.
        first_frame: a multiple of 4.
        family: "v10" or "v9".
        scene: (id, name).
        missing_frames: frames without members.
        missing_blocks: blocks without a line; every block that holds a frame of the range has one otherwise.
        json_changes: fields to replace in a frame's json, e.g. `lambda f: {"episode": 1 + (f > 90)}`.
        member_hook: changes or drops a member's bytes just before they are written.
        members_per_shard: members a tar shard.
        shuffle_seed: shuffles all members over the shards, and the lines of `blocks.jsonl`; None keeps their order.
    """
    frames = range(first_frame, first_frame + n_frames)
    members: list[tuple[str, bytes]] = []
    for frame in frames:
        if frame in missing_frames:
            continue
        rgb, ids, value = numbered_frame(frame, size=size)
        value |= json_changes(frame) if json_changes else {}
        for name, data in frame_members(frame, rgb, ids, value):
            kept = member_hook(frame, name.split(".", 1)[1], data) if member_hook else data
            if kept is not None:
                members.append((name, kept))
    blocks = [b for b in range(first_frame // BLOCK, (frames[-1]) // BLOCK + 1) if b not in missing_blocks]
    rows = [{"block": b, "actions": _actions(b), "prompt": f"prompt {b // 5}"} for b in blocks]
    if shuffle_seed is not None:
        rng = np.random.default_rng(shuffle_seed)
        members = [members[i] for i in rng.permutation(len(members))]
        rows = [rows[i] for i in rng.permutation(len(rows))]
    run_json = {"run": run, "family": family, "fps": 24, "scene": {"id": scene[0], "name": scene[1]},
                "clip_starts": list(clip_starts), "image_size": list(size)}  # fmt: skip
    with new_run_folder(Path(root), run) as folder:
        write_run_files(folder, run_json, rows)
        write_shards(folder, members, per_shard=members_per_shard)
    return Path(root) / run
