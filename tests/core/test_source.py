"""Reading a recording: random access, errors that name the place, a cache that never lies."""

import json
import os

import numpy as np
import pytest

from gc25d_core.errors import SourceError
from gc25d_core.source import bad_run_folders, list_runs, open_run, run_digest
from gc25d_core.source.tarindex import scan


def the_fault(e):
    assert len(e.value.faults) == 1
    return e.value.faults[0]


def test_members_of_one_frame_may_lie_in_different_shards_in_any_order(tmp_path, new_run):
    b = new_run()
    names = list(b.members)
    np.random.default_rng(0).shuffle(names)
    b.members = {n: b.members[n] for n in names}
    b.shards = 3
    b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    for frame in (0, 57, 111):
        assert run.read(frame, "ids") == b.members[f"{frame:06d}.ids.png"]
        assert run.read(frame, "jpg") == b.members[f"{frame:06d}.jpg"]
        assert run.record(frame).frame == frame
    assert run.problems == []


def test_seven_digits_occur_past_999999(tmp_path, new_run):
    b = new_run(first=999_960)
    b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    assert run.record(1_000_003).frame == 1_000_003
    assert run.missing(range(999_960, 1_000_072)) == []


def test_a_frame_spelled_with_a_leading_zero_too_many_is_not_that_frame(tmp_path, new_run):
    b = new_run()
    b.members["0000005.jpg"] = b.members.pop("000005.jpg")
    b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    assert run.missing(range(112)) == [(5, "jpg")]


def test_a_cut_shard_names_shard_and_offset_and_keeps_its_whole_members(tmp_path, new_run):
    b = new_run()
    folder = b.write(tmp_path)
    shard = folder / "shard-000001.tar"
    whole = scan(shard)
    last = max(whole.members, key=lambda n: whole.members[n][0])
    os.truncate(shard, whole.members[last][0] + 3)
    run = open_run(tmp_path, b.run, cache=None)
    (fault,) = run.problems
    assert (fault.shard, fault.offset, fault.kind) == ("shard-000001.tar", whole.members[last][0] + 3, "shard_cut")
    frame = int(last.split(".")[0])
    kind = {"jpg": "jpg", "ids.png": "ids", "json": "json"}[last.split(".", 1)[1]]
    assert run.missing(range(112)) == [(frame, kind)]
    with pytest.raises(SourceError) as e:
        run.read(frame, kind)
    assert "shard-000001.tar is cut" in str(e.value) and the_fault(e).member == last


@pytest.mark.parametrize("cut", [511, 512 + 7, 4000])
def test_a_shard_cut_anywhere_is_noticed(tmp_path, new_run, cut):
    folder = new_run().write(tmp_path)
    os.truncate(folder / "shard-000000.tar", cut)
    assert [f.kind for f in open_run(tmp_path, "R10_s1", cache=None).problems] == ["shard_cut"]


def test_a_member_that_stands_twice_is_refused_with_both_places(tmp_path, new_run):
    b = new_run()
    folder = b.write(tmp_path)
    (folder / "shard-000007.tar").write_bytes((folder / "shard-000000.tar").read_bytes())
    run = open_run(tmp_path, b.run, cache=None)
    name = next(iter(b.members))
    with pytest.raises(SourceError) as e:
        run.read(int(name[:6]), "ids")
    assert the_fault(e).kind == "member_twice"
    assert "shard-000000.tar, shard-000007.tar" in str(e.value)


def nan_json(b, frame):
    b.members[f"{frame:06d}.json"] = b.members[f"{frame:06d}.json"].replace(b'"fx": 80.0', b'"fx": NaN')


DAMAGED = {
    "missing field": (lambda b: b.members.update({"000007.json": b'{"frame": 7}'}), "episode"),
    "wrong type": (lambda b: b.set_json(7, dead=1), r"\$.dead"),
    "not a number": (lambda b: nan_json(b, 7), "malformed"),
    "huge number": (
        lambda b: b.set_json(
            7, capsules=[{"owner": "player", "part": "head", "a": [1e300, 0, 0], "b": [0, 0, 0], "radius": 1}]
        ),
        r"\$.capsules\[0\].a",
    ),
    "radius 0": (
        lambda b: b.set_json(
            7, capsules=[{"owner": "player", "part": "head", "a": [0, 0, 0], "b": [0, 0, 0], "radius": 0}]
        ),
        "radius",
    ),
    "unknown owner": (
        lambda b: b.set_json(
            7, capsules=[{"owner": "cow", "part": "head", "a": [0, 0, 0], "b": [0, 0, 0], "radius": 1}]
        ),
        "owner",
    ),
    "singular pose": (
        lambda b: b.set_json(
            7, camera={"fx": 1, "fy": 1, "cx": 0, "cy": 0, "world_to_camera": [[0, 0, 0, 0]] * 3 + [[0, 0, 0, 1]]}
        ),
        "condition number inf",
    ),
    "cut json": (lambda b: b.members.update({"000007.json": b.members["000007.json"][:100]}), "truncated"),
    "not utf-8": (
        lambda b: b.members.update({"000007.json": b.members["000007.json"].replace(b"walk", b"w\xff\xfek")}),
        "UTF-8|utf-8",
    ),
    "another frame": (lambda b: b.members.update({"000007.json": b.members["000008.json"]}), "expected 7"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_bad_json_names_run_frame_member_and_field(tmp_path, new_run, name):
    damage, message = DAMAGED[name]
    b = new_run()
    damage(b)
    b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    with pytest.raises(SourceError, match=message) as e:
        run.record(7)
    fault = the_fault(e)
    assert (fault.run, fault.frame, fault.member) == ("R10_s1", 7, "000007.json") and fault.fix
    assert run.record(6).frame == 6


def test_blocks_may_come_in_any_order_and_bad_lines_are_listed(tmp_path, new_run):
    b = new_run()
    b.blocks.reverse()
    b.blocks.insert(3, b'{"block": 2, "actions": [1, 2, 300], "prompt": ""}')
    b.blocks.append(b.blocks[0])
    b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    assert [f.kind for f in run.problems] == ["block_unreadable", "block_twice"]
    assert "line 4" in str(run.problems[0])
    assert sorted(run.blocks) == list(range(27)), "the block that stands twice is neither of the two"
    assert run.blocks[5].actions == bytes([5, 1, 2])


def test_the_cache_is_used_and_a_touched_shard_is_hashed_again(tmp_path, new_run):
    b = new_run()
    folder = b.write(tmp_path / "src")
    cache = tmp_path / "cache"
    run = open_run(tmp_path / "src", b.run, cache=cache)
    before, same = run.member_hash(3, "jpg"), run.member_hash(4, "jpg")
    run.save_cache()
    run.close()
    again = open_run(tmp_path / "src", b.run, cache=cache)
    assert again._index.shards[0].hashes or again._index.shards[1].hashes
    b.members["000003.jpg"] = b.members["000003.jpg"][:-4] + b"\xff\xd9\xff\xd9"
    b.write(tmp_path / "src")
    for p in folder.glob("*.tar"):
        os.utime(p, ns=(1, 1))
    changed = open_run(tmp_path / "src", b.run, cache=cache)
    assert changed.member_hash(3, "jpg") != before
    assert changed.member_hash(4, "jpg") == same


def test_a_damaged_cache_is_only_slower(tmp_path, new_run):
    b = new_run()
    b.write(tmp_path / "src")
    cache = tmp_path / "cache"
    run = open_run(tmp_path / "src", b.run, cache=cache)
    run.save_cache()
    (cache / "source" / f"{b.run}.msgpack").write_bytes(b"\x93garbage")
    assert open_run(tmp_path / "src", b.run, cache=cache).record(0).frame == 0


def test_a_shard_that_changes_under_the_reader_is_an_error_not_other_bytes(tmp_path, new_run):
    b = new_run()
    folder = b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    for p in folder.glob("*.tar"):
        os.utime(p, ns=(5, 5))
    with pytest.raises(OSError, match="changed while the run was read"):
        run.read(0, "jpg")


RUN_JSON = {
    "another run's name": ({"run": "other"}, "names another run"),
    "unknown family": ({"family": "v11"}, "family"),
    "odd scene name": ({"scene": {"id": 1, "name": "a/b"}}, "scene"),
    "starts no list": ({"clip_starts": 4}, "clip_starts"),
    "size no pair": ({"image_size": [96]}, "image_size"),
}


@pytest.mark.parametrize("name", RUN_JSON)
def test_a_bad_run_json_is_a_fault_of_the_run(tmp_path, new_run, name):
    change, message = RUN_JSON[name]
    b = new_run()
    b.run_json.update(change)
    b.write(tmp_path)
    with pytest.raises(SourceError, match=message):
        open_run(tmp_path, b.run, cache=None)
    assert len(bad_run_folders(tmp_path)) == 1


def test_runs_are_listed_by_name_and_odd_folders_reported(tmp_path, new_run):
    for run in ("R10_s2", "P9_x", "R10_s1"):
        new_run(run, frames=4).write(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "odd name").mkdir()
    (tmp_path / "odd name" / "run.json").write_text("{}")
    assert list_runs(tmp_path) == ["P9_x", "R10_s1", "R10_s2"]
    assert [f.kind for f in bad_run_folders(tmp_path)] == ["run_name"]
    with pytest.raises(SourceError, match="no such run"):
        open_run(tmp_path, "R10_s3", cache=None)
    with pytest.raises(SourceError, match="not allowed"):
        open_run(tmp_path, "../x", cache=None)


def test_the_data_version_follows_shards_blocks_and_run_json(tmp_path, new_run):
    b = new_run(frames=8)
    folder = b.write(tmp_path)
    versions = [run_digest(tmp_path, b.run)]
    os.utime(folder / "shard-000000.tar", ns=(1, 1))
    versions.append(run_digest(tmp_path, b.run))
    (folder / "blocks.jsonl").write_bytes(b"")
    versions.append(run_digest(tmp_path, b.run))
    (folder / "run.json").write_text(json.dumps({**b.run_json, "fps": 31}))
    versions.append(run_digest(tmp_path, b.run))
    assert len(set(versions)) == 4
    assert run_digest(tmp_path, b.run) == versions[-1]


def test_what_cannot_be_opened_is_a_fault_and_the_rest_of_the_run_is_read(tmp_path, new_run):
    b = new_run()
    folder = b.write(tmp_path)
    (folder / "shard-000001.tar").unlink()
    (folder / "shard-000001.tar").symlink_to("nowhere")
    (folder / "shard-000002.tar").mkdir()
    (folder / "blocks.jsonl").unlink()
    (folder / "blocks.jsonl").mkdir()
    run = open_run(tmp_path, b.run, cache=None)
    kinds = sorted((f.kind, f.shard) for f in run.problems if f.shard) + [f.kind for f in run.problems if not f.shard]
    assert kinds == [("shard_cut", "shard-000001.tar"), ("shard_cut", "shard-000002.tar"), "blocks_unreadable"]
    assert run.record(0).frame == 0 or run.missing([0])
    assert len(run_digest(tmp_path, b.run)) == 32


def test_json_nested_without_end_is_a_fault(tmp_path, new_run):
    b = new_run()
    b.members["000007.json"] = b'{"x": ' * 200_000
    b.blocks[0] = b"[" * 200_000
    b.write(tmp_path)
    run = open_run(tmp_path, b.run, cache=None)
    assert [f.kind for f in run.problems] == ["block_unreadable"]
    with pytest.raises(SourceError):
        run.record(7)


def test_a_scene_name_may_not_end_in_a_newline(tmp_path, new_run):
    b = new_run()
    b.run_json["scene"]["name"] = "valley\n"
    b.write(tmp_path)
    with pytest.raises(SourceError, match="scene"):
        open_run(tmp_path, b.run, cache=None)
