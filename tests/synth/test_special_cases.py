"""The default set holds every special case that the rest of the system must cope with, seen in its files alone."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def _clips(source) -> list[tuple[Any, int]]:
    return [(run, start) for run in source.values() for start in run.run_json["clip_starts"]]


def _has_ext(run: Any, start: int) -> bool:
    rows = {row["block"] for row in run.blocks}
    blocks = all(start // 4 + k in rows for k in range(27))
    constant = len({(run.json(f)["episode"], run.json(f)["camera_variant"]) for f in range(start, start + 109)}) == 1
    return blocks and constant


def _hidden(run: Any, start: int) -> float:
    alive = [f for f in range(start, start + 81) if not run.json(f)["dead"]]
    return float(np.mean([(run.ids(f) != 10).all() for f in alive]))


def _look_changes(run: Any, start: int) -> bool:
    return run.json(start + 80)["look"] != run.json(start + 81)["look"]


def _val(run: str) -> bool:
    return int(hashlib.sha256(run.encode()).hexdigest()[:8], 16) % 20 == 0


def test_one_clip_loses_its_extension_to_a_new_episode_and_one_to_its_last_block(source) -> None:
    reasons = []
    for run, start in _clips(source):
        if _has_ext(run, start):
            continue
        episodes = [run.json(f)["episode"] for f in range(start, start + 109)]
        missing = [k for k in range(27) if start // 4 + k not in {row["block"] for row in run.blocks}]
        assert len(set(episodes[:81])) == 1, "the clip itself is whole"
        reasons.append((len(set(episodes)), missing))
    assert sorted(reasons) == [(1, [26]), (2, [])]


def test_one_clip_has_its_player_buried(source) -> None:
    hidden = [_hidden(run, start) for run, start in _clips(source)]
    assert sum(share > 0.5 for share in hidden) == 1
    assert sum(share > 0.1 for share in hidden) == 1, "everywhere else the player is in the picture"


def test_the_buried_player_sinks_below_the_ground_in_the_json_too(source) -> None:
    run, start = next((r, s) for r, s in _clips(source) if _hidden(r, s) > 0.5)

    def top(frame: int) -> float:
        return max(c["b"][2] for c in run.json(frame)["capsules"] if c["owner"] == "player")

    assert top(start) - top(start + 60) > 300


def test_frames_of_one_run_lie_in_any_order_and_cut_by_shards(source) -> None:
    run = source["P9C_autumn_s1941"]
    numbers = [int(name.split(".")[0]) for _, name in run.order if name.endswith(".json")]
    assert numbers != sorted(numbers)
    shards: dict[str, set[str]] = {}
    for shard, name in run.order:
        shards.setdefault(name.split(".")[0], set()).add(shard)
    assert max(len(where) for where in shards.values()) > 1, "some frame's members lie in different shards"


def test_one_run_passes_frame_999999(source) -> None:
    run = source["P9_golden_s2916"]
    assert {"999999.jpg", "1000000.jpg", "1000003.jpg"} <= set(run.members)
    assert any(start <= 999_999 < start + 80 for start in run.run_json["clip_starts"])


def test_the_lines_of_one_runs_blocks_are_shuffled(source) -> None:
    shuffled = {n for n, r in source.items() if [b["block"] for b in r.blocks] != sorted(b["block"] for b in r.blocks)}
    assert shuffled == {"R10_s1512"}


def test_there_is_a_dead_stretch_in_which_the_player_lies(source) -> None:
    run = source["R10_s1501"]
    start = run.run_json["clip_starts"][1]
    dead = [f for f in range(start, start + 81) if run.json(f)["dead"]]
    assert 10 < len(dead) < 60 and dead == list(range(dead[0], dead[-1] + 1))

    def height(frame: int) -> float:
        z = [end[2] for c in run.json(frame)["capsules"] if c["owner"] == "player" for end in (c["a"], c["b"])]
        return max(z) - min(z)

    assert height(dead[-1]) < 0.75 * height(start)


def test_the_pool_is_not_empty_and_depends_on_the_policy(source) -> None:
    pool = [
        (run, start)
        for run, start in _clips(source)
        if _has_ext(run, start) and _hidden(run, start) <= 0.5 and not _val(run.run_json["run"])
    ]
    changed = [run.run_json["family"] for run, start in pool if _look_changes(run, start)]
    same = [run.run_json["family"] for run, start in pool if not _look_changes(run, start)]
    assert "v10" in changed and "v9" not in changed
    assert {"v10", "v9"} <= set(same)


def test_one_run_is_for_validation(source) -> None:
    assert [run for run in source if _val(run)] == ["P9_golden_s2916"]


def test_looks_change_at_s_81_only_in_v10_and_take_the_static_ids_with_them(source) -> None:
    changes = 0
    for run, start in _clips(source):
        looks = [str(run.json(f)["look"]) for f in range(start, start + 109)]
        turns = [k + 1 for k in range(108) if looks[k] != looks[k + 1]]
        assert turns == ([81] if _look_changes(run, start) else [])
        if not turns:
            continue
        assert run.run_json["family"] == "v10"
        changes += 1
        ids = {f: run.ids(f) for f in range(start + 78, start + 85)}
        differing = [
            np.mean((ids[f] != ids[f + 1])[(ids[f] < 10) & (ids[f + 1] < 10)]) for f in range(start + 78, start + 84)
        ]
        assert int(np.argmax(differing)) == 2 and differing[2] > 3 * np.median(differing)
    assert changes == 3


def test_occluders_hide_a_part_of_the_player_in_v9(source, analytic) -> None:
    for name in ("P9C_autumn_s1941", "P9_golden_s2916"):
        run = source[name]
        start = run.run_json["clip_starts"][0]
        hidden = []
        for frame in range(start, start + 109, 2):
            value = run.json(frame)
            shape = analytic(value["camera"], value["capsules"], (96, 48)) == 10
            hidden.append(float((run.ids(frame)[shape] < 7).mean()))
        assert max(hidden) > 0.3, "at some time something stands in the way"
        assert np.median(hidden) < 0.05, "most of the time nothing does"


def test_scene_ids_order_differs_from_run_order_and_names(source) -> None:
    scenes = {name: (run.run_json["scene"]["id"], run.run_json["scene"]["name"]) for name, run in source.items()}
    assert set(scenes.values()) == {(1, "valley"), (2, "ridge")}
    assert scenes["R10_s1501"][0] > scenes["R10_s1512"][0]
