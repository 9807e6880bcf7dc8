"""Rows of a run: what they say, when a clip has none, what a fault and its acceptance do."""

import dataclasses
import json
import math

import msgspec
import numpy as np
import pytest

from gc25d_core.errors import Fault, OutputError
from gc25d_core.faults import accept_fault, read_accepted, read_faults
from gc25d_core.geometry import Geometry
from gc25d_core.index import read_index
from gc25d_core.outputs.files import READERS, MetaFile
from gc25d_core.outputs.ready import building
from gc25d_core.plan import read_plan
from gc25d_core.prepare.faults import write_faults
from gc25d_core.rows import Row, decode_rows, encode_rows, index_run, make_row, read_rows, row_stats
from gc25d_core.source import list_runs

COLUMNS = [
    "clip",
    "run",
    "family",
    "scene",
    "s",
    "split",
    "has_ext",
    "drop_reason",
    "look",
    "ext_look",
    "ext_look_change",
    "episode",
    "camera_variant",
    "mirrored_world",
    "max_frame_offset_cm",
    "player_px_mean",
    "boss_px_mean",
    "boss_visible_frac",
    "player_hidden_frac",
    "n_blocks",
    "prompts",
    "outputs",
]


def meta(*, player=None, boss=None, dead=None, x=None, frames=81):
    """A `MetaFile` with these pixel counts, death and player position (cm; None: no capsule) by frame."""
    rows = np.full((frames, 1, 8), np.nan, np.float32)
    rows[..., 7] = 0
    for f, at in enumerate(x if x is not None else [0.0] * frames):
        if at is not None:
            rows[f, 0] = [at - 1, 0, 10, at + 1, 0, 30, 5, 13]
    zeros = np.zeros(frames, np.int32)
    return MetaFile(
        frames=np.arange(frames, dtype=np.int32), capsules=rows, K=np.tile(np.eye(3), (frames, 1, 1)),
        world_to_camera=np.tile(np.eye(4), (frames, 1, 1)), ground_z=np.zeros(frames, np.float32),
        player_px=zeros if player is None else np.array(player, np.int32), boss_px=zeros if boss is None else np.array(boss, np.int32),
        class_px=np.zeros((frames, 22), np.int32), static_change=np.zeros(frames - 1, np.float32),
        dead=np.zeros(frames, bool) if dead is None else np.array(dead), bot_mode=np.array(["x"] * frames),
        geometry=Geometry.fit((96, 48), (64, 32)), provenance={},
    )  # fmt: skip


def test_a_row_has_the_columns_of_the_design_in_their_order(dataset):
    assert list(Row.__struct_fields__) == COLUMNS
    run = list_runs(dataset.src)[0]
    line = json.loads(dataset.paths.rows(run).read_bytes().splitlines()[0])
    assert list(line) == COLUMNS


def test_rows_say_what_plan_files_and_disk_say(dataset):
    for run in list_runs(dataset.src):
        rows = {r.clip: r for r in read_rows(dataset.paths, run)}
        plan = read_plan(dataset, run)
        assert rows.keys() == {c.clip for c in plan.clips}
        for clip in plan.clips:
            row = rows[clip.clip]
            assert (row.s, row.look, row.ext_look, row.n_blocks) == (clip.s, clip.look, clip.ext_look, clip.n_blocks)
            assert row.n_blocks == (27 if row.has_ext else 20) and (row.ext_look is not None) == row.has_ext
            assert set(row.outputs) == {"latents", "cond", "meta"} | ({"cond_ext"} if row.has_ext else set())
            for kind, output in row.outputs.items():
                path = dataset.out / output.path
                assert path == dataset.paths.clip(kind, row.clip) and path.stat().st_size == output.bytes
                assert READERS[kind](path).content_hash == output.hash


def test_the_special_clips_of_the_tiny_source_are_seen(dataset):
    rows = read_index(dataset)[0]
    assert {r.family for r in rows} == {"v10", "v9"} and {r.has_ext for r in rows} == {True, False}
    assert any(r.ext_look_change for r in rows) and any(r.drop_reason == "buried_player" for r in rows)
    assert {r.split for r in rows} == {"train", "val"}
    assert all(r.player_hidden_frac > 0.5 for r in rows if r.drop_reason)


def test_statistics_leave_the_extension_out():
    stats = row_stats(
        meta(
            player=[4] * 81 + [1000] * 28, boss=[0] * 41 + [8] * 40 + [9] * 28, x=[0.0] * 81 + [500.0] * 28, frames=109
        )
    )
    assert stats.player_px_mean == 4 and stats.boss_px_mean == pytest.approx(8 * 40 / 81)
    assert stats.boss_visible_frac == pytest.approx(40 / 81)
    assert stats.max_frame_offset_cm == 0


def test_hidden_share_counts_frames_that_are_not_dead():
    player, dead = [0] * 30 + [5] * 51, [True] * 20 + [False] * 61
    assert row_stats(meta(player=player, dead=dead)).player_hidden_frac == pytest.approx(10 / 61)
    assert row_stats(meta(dead=[True] * 81)).player_hidden_frac == 0


def test_the_largest_move_is_between_neighbours_that_both_have_capsules():
    x = [0.0] * 81
    x[10], x[11], x[12] = 3.0, None, 100.0
    x[13:] = [100.0] * 68
    assert row_stats(meta(x=x)).max_frame_offset_cm == pytest.approx(3)
    assert row_stats(meta(x=[None] * 81)).max_frame_offset_cm == 0


def test_a_clip_hidden_for_more_than_the_share_is_buried_and_not_at_the_share(dataset):
    plan = read_plan(dataset, list_runs(dataset.src)[0]).clips[0]
    half = [0, 5] * 40 + [5]  # 40 of 81
    assert make_row(plan, meta(player=half), {}, 40 / 81).drop_reason is None
    assert make_row(plan, meta(player=half), {}, 0.49).drop_reason == "buried_player"


def test_making_rows_again_writes_nothing_and_keeps_ready(dataset):
    dataset.paths.ready.write_text("{}")
    run = list_runs(dataset.src)[0]
    before = dataset.paths.rows(run).stat().st_mtime_ns
    report = index_run(dataset, run)
    assert not report.written and dataset.paths.rows(run).stat().st_mtime_ns == before and dataset.paths.ready.exists()
    dataset.paths.rows(run).unlink()
    assert index_run(dataset, run).written and not dataset.paths.ready.exists()


@pytest.mark.parametrize("kind", ["latents", "cond", "cond_ext", "meta"])
def test_a_clip_that_lacks_a_file_has_no_row_and_is_reported(dataset, kind):
    row = next(r for r in read_index(dataset)[0] if r.has_ext)
    dataset.paths.clip(kind, row.clip).unlink()
    report = index_run(dataset, row.run)
    assert (report.planned, report.rows) == (2, 1) and [clip for clip, _ in report.missing] == [row.clip]
    assert row.clip not in {r.clip for r in read_rows(dataset.paths, row.run)}


def test_a_file_made_under_other_settings_gives_no_row(dataset):
    run = list_runs(dataset.src)[0]
    report = index_run(dataclasses.replace(dataset, precision="fast"), run)
    assert report.rows == 0 and all("fingerprint" in why for _, why in report.missing)


def test_a_run_without_plan_has_no_rows(dataset):
    run = list_runs(dataset.src)[0]
    dataset.paths.plan(run).unlink()
    with pytest.raises(OutputError, match="no plan"):
        index_run(dataset, run)


@pytest.fixture
def faulty(dataset):
    """A data set where one step found a fault in a clip that another step had made files of."""
    row = next(r for r in read_index(dataset)[0] if r.has_ext)
    with building(dataset) as build:
        write_faults(
            dataset, row.run, "latents", [Fault("bad_jpeg", "cut", row.run, clip=row.clip, frame=row.s + 3)], build
        )
    return dataset, row


def test_a_clip_with_a_fault_has_no_row_until_it_is_accepted(faulty):
    settings, row = faulty
    report = index_run(settings, row.run)
    assert (report.planned, report.rows, report.faults, report.accepted, report.missing) == (2, 1, 1, 0, ())
    accept_fault(settings, row.run, row.clip, reason=" the shard is lost ", who="a test")
    report = index_run(settings, row.run)
    assert (report.planned, report.rows, report.faults, report.accepted) == (2, 1, 0, 1)
    [accepted] = [r for r in read_rows(settings.paths, row.run) if r.clip == row.clip]
    assert accepted.drop_reason == "source_error" and accepted.outputs == {} and accepted.player_px_mean is None
    assert (accepted.look, accepted.has_ext, accepted.s) == (row.look, row.has_ext, row.s)


def test_an_accepted_clip_that_could_not_even_be_planned_has_a_row_with_null_where_nothing_is_known(dataset):
    run = list_runs(dataset.src)[0]
    plan = read_plan(dataset, run)
    clip = f"{plan.info.scene_id:02d}_{plan.info.scene_name}__{run}__999996"
    with building(dataset) as build:
        write_faults(dataset, run, "plan", [Fault("member_missing", "gone", run, clip=clip)], build)
    accept_fault(dataset, run, clip, reason="gone", who="a test")
    report = index_run(dataset, run)
    assert (report.planned, report.rows, report.accepted) == (3, 2, 1)
    row = read_rows(dataset.paths, run)[-1]
    assert (row.clip, row.s, row.family, row.look, row.episode, row.prompts) == (
        clip,
        999996,
        plan.info.family,
        None,
        None,
        [],
    )


def test_accepting_needs_a_reason_and_a_fault(faulty):
    settings, row = faulty
    with pytest.raises(ValueError, match="reason"):
        accept_fault(settings, row.run, row.clip, reason="  ", who="a test")
    with pytest.raises(ValueError, match=row.clip):
        accept_fault(settings, row.run, "another", reason="x", who="a test")
    assert read_accepted(settings) == {}
    accept_fault(settings, row.run, row.clip, reason="first", who="a")
    accept_fault(settings, row.run, row.clip, reason="second", who="b")
    assert read_accepted(settings)[row.run, row.clip].reason == "second"
    assert len(settings.paths.accepted_faults.read_bytes().splitlines()) == 2


def test_faults_of_all_steps_are_read_once(faulty):
    settings, row = faulty
    fault = read_faults(settings, row.run)[0]
    with building(settings) as build:
        write_faults(
            settings, row.run, "conditions", [fault, Fault("bad_ids", "ids 12", row.run, clip=row.clip)], build
        )
    assert [f.kind for f in read_faults(settings, row.run)] == ["bad_jpeg", "bad_ids"]


def test_a_fault_of_a_run_named_like_the_start_of_another_stays_with_its_run(dataset):
    with building(dataset) as build:
        write_faults(dataset, "R10", "plan", [Fault("run_empty", "x", "R10")], build)
    assert read_faults(dataset, "R10_s1501") == () and len(read_faults(dataset, "R10")) == 1


def test_rows_are_ordered_by_values_not_by_text(dataset):
    row = read_index(dataset)[0][0]
    mixed = [
        msgspec.structs.replace(row, scene=f"{scene:02d}_x", run=run, s=s, clip=f"{scene}{run}{s}")
        for scene, run, s in ((100, "a", 0), (9, "b", 1000000), (9, "b", 999996), (10, "a", 4), (9, "a", 8))
    ]
    ordered = [(r.order[0], r.run, r.s) for r in decode_rows(encode_rows(mixed))]
    assert ordered == [(9, "a", 8), (9, "b", 999996), (9, "b", 1000000), (10, "a", 4), (100, "a", 0)]


def test_nothing_in_a_row_may_be_nan(dataset):
    row = read_index(dataset)[0][0]
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="player_px_mean"):
            encode_rows([msgspec.structs.replace(row, player_px_mean=bad)])


def test_a_torn_rows_file_names_file_and_line(dataset):
    run = list_runs(dataset.src)[0]
    path = dataset.paths.rows(run)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(OutputError, match=rf"{run}.jsonl, line 2"):
        read_rows(dataset.paths, run)
