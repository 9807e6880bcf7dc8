"""Numbered runs say their number through JPEG and shrinking, and their characters fit their capsules."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from gc25d_core.synth.numbered import (
    block_number_of_actions,
    frame_number_of_ids,
    frame_number_of_rgb,
    is_rgb_order,
    numbered_frame,
    write_numbered_run,
)

NUMBERS = [0, 1, 2, 85, 0b10101010101010101010, 999_999, 1_000_003, (1 << 20) - 1]


@pytest.mark.parametrize("size, target", [((96, 48), (64, 32)), ((160, 90), (104, 60)), ((640, 360), (416, 240))])
@pytest.mark.parametrize("number", NUMBERS)
def test_the_number_survives_jpeg_crop_and_shrinking(number: int, size, target) -> None:
    rgb, ids, _ = numbered_frame(number, size=size)
    jpeg = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])[1]
    decoded = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)[..., ::-1]
    factor = min(size[0] / target[0], size[1] / target[1])
    width, height = round(target[0] * factor), round(target[1] * factor)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    small = cv2.resize(decoded[top : top + height, left : left + width], target, interpolation=cv2.INTER_AREA)
    rows = top + ((np.arange(target[1]) + 0.5) * factor).astype(int)
    columns = left + ((np.arange(target[0]) + 0.5) * factor).astype(int)
    assert frame_number_of_rgb(small) == number
    assert frame_number_of_ids(ids[rows][:, columns]) == number
    assert is_rgb_order(small)
    assert not is_rgb_order(small[..., ::-1]), "BGR is noticed"
    assert not is_rgb_order(small[:, ::-1]), "so is a mirrored picture"


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="1048576"):
        numbered_frame(1 << 20)


@pytest.mark.parametrize("frame", [0, 5, 80])
def test_characters_lie_where_their_capsules_are(frame: int, analytic) -> None:
    _, ids, value = numbered_frame(frame, size=(384, 192))
    drawn = analytic(value["camera"], value["capsules"], (384, 192))
    for owner in (10, 11):
        assert ((ids == owner) & (drawn == owner)).sum() / ((ids == owner) | (drawn == owner)).sum() > 0.99
    assert {(c["owner"], c["part"]) for c in value["capsules"]} == {
        (owner, part) for owner in ("player", "boss") for part in ("head", "torso", "arms", "legs", "weapon")
    }


def test_neighbouring_frames_have_different_character_regions() -> None:
    regions = [numbered_frame(frame)[1] >= 10 for frame in range(12)]
    assert all(not np.array_equal(a, b) for a, b in pairwise(regions))


def test_a_written_run_reads_back_frame_by_frame(tmp_path: Path, read) -> None:
    folder = write_numbered_run(
        tmp_path, "P9_n1", n_frames=120, clip_starts=[0, 8], first_frame=999_920, shuffle_seed=1
    )
    run = read(folder)
    assert run.frames() == list(range(999_920, 1_000_040))
    for frame in run.frames()[::9]:
        assert frame_number_of_rgb(run.rgb(frame)) == frame == frame_number_of_ids(run.ids(frame))
        assert run.json(frame)["frame"] == frame
        assert is_rgb_order(run.rgb(frame))
    assert sorted(row["block"] for row in run.blocks) == list(range(249_980, 250_010))
    assert all(block_number_of_actions(row["actions"]) == row["block"] for row in run.blocks)
    assert [row["block"] for row in run.blocks] != sorted(row["block"] for row in run.blocks)
    assert len({shard for shard, _ in run.order}) == 4
    assert run.run_json["clip_starts"] == [0, 8]


def test_gaps_changes_and_hooks_reach_the_files(tmp_path: Path, read) -> None:
    folder = write_numbered_run(
        tmp_path,
        "R10_n2",
        n_frames=12,
        clip_starts=[0],
        family="v10",
        missing_frames={3},
        missing_blocks={1},
        json_changes=lambda frame: {"episode": 1 + (frame > 5)},
        member_hook=lambda frame, kind, data: None if (frame, kind) == (7, "ids.png") else data + b"!" * (frame == 8),
    )
    run = read(folder)
    assert run.run_json["family"] == "v10"
    assert 3 not in run.frames() and len(run.frames()) == 11
    assert [row["block"] for row in run.blocks] == [0, 2]
    assert [run.json(frame)["episode"] for frame in (5, 6)] == [1, 2]
    assert "000007.ids.png" not in run.members and "000007.jpg" in run.members
    assert run.members["000008.jpg"].endswith(b"!") and not run.members["000009.jpg"].endswith(b"!")


def test_writing_over_a_run_is_refused_and_a_broken_write_leaves_no_run(tmp_path: Path) -> None:
    def broken(frame: int, kind: str, data: bytes) -> bytes:
        if frame == 2:
            raise OSError("disk full")
        return data

    with pytest.raises(OSError, match="disk full"):
        write_numbered_run(tmp_path, "R10_n3", n_frames=4, clip_starts=[0], member_hook=broken)
    assert not (tmp_path / "R10_n3").exists()
    write_numbered_run(tmp_path, "R10_n3", n_frames=4, clip_starts=[0])
    with pytest.raises(FileExistsError):
        write_numbered_run(tmp_path, "R10_n3", n_frames=4, clip_starts=[0])
