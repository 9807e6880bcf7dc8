"""The pool: who is in it under each policy, in what order, and a choice that later launches keep."""

import json

import msgspec
import pytest

from gc25d_core.errors import OutputError
from gc25d_core.index import read_index
from gc25d_core.pool import build_pool, left_out_because, pool_sizes, read_policy, write_policy
from gc25d_core.rows import encode_rows


@pytest.fixture
def rows(dataset):
    return read_index(dataset)[0]


def make(row, **change):
    return msgspec.structs.replace(
        row, **{"split": "train", "has_ext": True, "drop_reason": None, "ext_look_change": False, **change}
    )


def test_each_reason_to_be_left_out(rows):
    row = rows[0]
    cases = [
        ({}, None, None),
        ({"ext_look_change": True}, "look changes", None),
        ({"has_ext": False}, "no extension", "no extension"),
        ({"split": "val"}, "split val", "split val"),
        ({"drop_reason": "buried_player"}, "buried_player", "buried_player"),
        ({"drop_reason": "source_error", "split": "val"}, "source_error", "source_error"),
    ]
    for change, same_look, everything in cases:
        assert left_out_because(make(row, **change), "same_look") == same_look
        assert left_out_because(make(row, **change), "all") == everything


def test_sizes_name_every_family_even_with_nothing_in_the_pool(rows):
    made = [
        make(rows[0], family="v10"),
        make(rows[0], family="v10", ext_look_change=True),
        make(rows[0], family="v9", split="val"),
    ]
    assert pool_sizes(made) == {"same_look": {"v10": 1, "v9": 0, "all": 1}, "all": {"v10": 2, "v9": 0, "all": 2}}


def test_the_pool_keeps_the_order_and_carries_the_hash_of_the_index(dataset, rows):
    report = build_pool(dataset, "all", who="a test")
    pool = [json.loads(line) for line in dataset.paths.dmd_pool.read_bytes().splitlines()]
    wanted = [r.clip for r in rows if r.has_ext and r.drop_reason is None and r.split == "train"]
    assert [p["clip"] for p in pool] == wanted and report.size == len(wanted) > 1
    assert {p["index_hash"] for p in pool} == {report.index_hash} == {read_index(dataset)[1]}
    assert report.size + sum(report.left_out.values()) == len(rows)
    assert pool[0]["outputs"]["cond_ext"]["path"].startswith("cond_ext/") and pool[0]["prompts"]


def test_the_default_drops_clips_whose_look_changes_and_is_nobodys_choice(dataset, rows):
    report = build_pool(dataset)
    assert (report.policy.policy, report.policy.who) == ("same_look", None) and not dataset.paths.pool_policy.exists()
    pool = {json.loads(line)["clip"] for line in dataset.paths.dmd_pool.read_bytes().splitlines()}
    changing = {r.clip for r in rows if r.ext_look_change}
    assert changing and not pool & changing
    assert report.sizes["all"]["all"] - report.sizes["same_look"]["all"] == report.left_out["look changes"]


def test_a_choice_is_kept_by_later_launches(dataset):
    build_pool(dataset, "all", who="ann")
    report = build_pool(dataset)
    assert (report.policy.policy, report.policy.who) == ("all", "ann") and report.policy.when
    assert json.loads(dataset.paths.pool_policy.read_text())["who"] == "ann"
    assert build_pool(dataset, "same_look").policy.who  # the user's name
    assert read_policy(dataset).policy == "same_look"


def test_an_unknown_policy_changes_nothing(dataset):
    write_policy(dataset, "all", "ann")
    with pytest.raises(ValueError, match="same_look, all"):
        build_pool(dataset, "some")
    assert read_policy(dataset).policy == "all"


@pytest.mark.parametrize("text", ["{", "[]", '{"policy": "some"}'])
def test_a_damaged_choice_is_an_error_never_the_default(dataset, text):
    dataset.paths.pool_policy.write_text(text)
    with pytest.raises(OutputError, match="set "):
        build_pool(dataset)


def test_a_pool_without_index_says_what_to_do(dataset):
    dataset.paths.clips_jsonl.unlink()
    with pytest.raises(OutputError, match="clips_index"):
        build_pool(dataset)


def test_an_unchanged_pool_is_not_written_again_and_a_changed_index_changes_every_row(dataset, rows):
    before = build_pool(dataset, "all", "x")
    stamp = dataset.paths.dmd_pool.stat().st_mtime_ns
    build_pool(dataset)
    assert dataset.paths.dmd_pool.stat().st_mtime_ns == stamp
    dataset.paths.clips_jsonl.write_bytes(encode_rows(rows[:-1]))
    after = build_pool(dataset)
    assert after.index_hash != before.index_hash
    assert all(
        json.loads(x)["index_hash"] == after.index_hash for x in dataset.paths.dmd_pool.read_bytes().splitlines()
    )
