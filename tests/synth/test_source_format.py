"""The written source keeps to the format, read with nothing but tarfile, json and cv2."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

RUNS = ["R10_s1501", "R10_s1512", "P9C_autumn_s1941", "P9_golden_s2916"]


def test_the_default_runs_are_there_and_nothing_else(source) -> None:
    assert sorted(source) == sorted(RUNS)
    for run in source.values():
        names = {path.name for path in run.folder.iterdir()}
        shards = {name for name in names if re.fullmatch(r"shard-\d{6}\.tar", name)}
        assert len(shards) >= 2
        assert names - shards == {"run.json", "blocks.jsonl"}


def test_run_json_has_exactly_the_named_fields(source) -> None:
    for name, run in source.items():
        assert set(run.run_json) == {"run", "family", "fps", "scene", "clip_starts", "image_size"}
        assert run.run_json["run"] == name
        assert run.run_json["family"] == ("v10" if name.startswith("R10") else "v9")
        assert run.run_json["image_size"] == [96, 48]
        assert set(run.run_json["scene"]) == {"id", "name"}
        assert len(run.run_json["clip_starts"]) == 2
        assert all(start % 4 == 0 for start in run.run_json["clip_starts"])


def test_every_frame_has_its_three_members(source) -> None:
    for run in source.values():
        wanted = {f"{f:06d}{end}" for f in run.frames() for end in (".jpg", ".ids.png", ".json")}
        assert set(run.members) == wanted
        for start in run.run_json["clip_starts"]:
            assert set(range(start, start + 109)) <= set(run.frames())


def test_pictures_are_three_channel_and_ids_one_channel_of_valid_values(source) -> None:
    for run in source.values():
        for frame in run.frames()[::10]:
            ids = run.ids(frame)
            assert run.rgb(frame).shape == (48, 96, 3)
            assert ids.shape == (48, 96) and ids.dtype == np.uint8
            assert set(np.unique(ids)) <= {0, 1, 2, 3, 4, 5, 6, 10, 11}


def test_all_static_classes_and_both_characters_occur(source) -> None:
    seen = {int(v) for run in source.values() for f in run.frames()[::4] for v in np.unique(run.ids(f))}
    assert seen == {0, 1, 2, 3, 4, 5, 6, 10, 11}


def test_json_has_the_named_fields_with_their_types(source) -> None:
    kinds = {"frame": int, "episode": int, "camera_variant": str, "look": dict, "mirrored_world": bool,
             "bot_mode": str, "dead": bool, "camera": dict, "capsules": list}  # fmt: skip
    for run in source.values():
        for frame in run.frames()[::7]:
            value = run.json(frame)
            assert {key: type(item) for key, item in value.items()} == kinds
            assert value["frame"] == frame
            assert set(value["look"]) == {"biome", "lighting"}
            assert set(value["camera"]) == {"fx", "fy", "cx", "cy", "world_to_camera"}
            for capsule in value["capsules"]:
                assert set(capsule) == {"owner", "part", "a", "b", "radius"}
                assert capsule["owner"] in ("player", "boss")
                assert capsule["part"] in ("head", "torso", "arms", "legs", "weapon")
                assert capsule["radius"] > 0
                assert np.isfinite([*capsule["a"], *capsule["b"], capsule["radius"]]).all()


def test_each_character_has_every_part_and_the_number_of_capsules_varies(source) -> None:
    for run in source.values():
        counts = set()
        pairs = set()
        for frame in run.frames():
            capsules = run.json(frame)["capsules"]
            counts.add(len(capsules))
            pairs |= {(c["owner"], c["part"]) for c in capsules}
        assert len(pairs) == 10
        assert len(counts) > 1
        spheres = [c for c in run.json(run.frames()[0])["capsules"] if c["a"] == c["b"]]
        assert spheres, "a sphere (a = b) belongs to the format"


def test_world_to_camera_is_a_rigid_right_handed_motion(source) -> None:
    for run in source.values():
        matrix = np.array(run.json(run.frames()[0])["camera"]["world_to_camera"])
        np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-12)
        assert np.linalg.det(matrix[:3, :3]) > 0
        assert matrix[3].tolist() == [0, 0, 0, 1]
        assert matrix[1, 2] < 0, "camera y points down, world z up"


def test_floats_keep_every_digit(source) -> None:
    text = next(iter(source.values())).members
    member = next(data for name, data in text.items() if name.endswith(".json")).decode()
    assert max(len(number) for number in re.findall(r"\d+\.(\d+)", member)) >= 14


def test_blocks_are_unique_and_hold_eight_actions_of_uint8(source) -> None:
    for run in source.values():
        numbers = [row["block"] for row in run.blocks]
        assert len(set(numbers)) == len(numbers)
        for row in run.blocks:
            assert set(row) == {"block", "actions", "prompt"}
            assert len(row["actions"]) == 8
            assert all(type(value) is int and 0 <= value <= 255 for value in row["actions"])
            assert row["prompt"]


def test_prompts_name_the_look_of_the_cell_that_the_block_drives(source) -> None:
    for run in source.values():
        frames = set(run.frames())
        for row in run.blocks:
            frame = 4 * row["block"] + 1
            if frame in frames:
                look = run.json(frame)["look"]
                assert f"{look['biome']} at {look['lighting']}" in row["prompt"]


def test_prompts_and_actions_change_now_and_then(source) -> None:
    for run in source.values():
        rows = sorted(run.blocks, key=lambda row: row["block"])
        for key in ("prompt", "actions"):
            changes = sum(a[key] != b[key] for a, b in pairwise(rows))
            assert 0 < changes < len(rows) / 2


def test_tar_headers_say_nothing_of_time_or_user(source) -> None:
    for run in source.values():
        assert {(h.mtime, h.uid, h.gid, h.uname, h.gname) for h in run.headers} == {(0, 0, 0, "", "")}
