"""The deep checks: lies that every hash and count agrees with are still found against the recording."""

import io
import json
import tarfile

import cv2
import msgspec
import numpy as np
import pytest

from gc25d_core.clip_stats import class_px, static_change
from gc25d_core.geometry import Geometry
from gc25d_core.index import read_index
from gc25d_core.labels import render_capsules_from_meta
from gc25d_core.outputs.files import read_cond, read_cond_ext, read_meta
from gc25d_core.rows import SOURCE_ERROR
from gc25d_core.verify import spot_checks, spot_rows, structural_run
from gc25d_core.verify.spot_render import is_unoccluded, spot_render
from gc25d_core.verify.spot_source import spot_source

SOURCE_CHECKS = ("spot_raw_ids", "spot_ids", "spot_labels", "spot_oracle", "spot_labels_meta", "spot_row")


@pytest.fixture
def lie(dataset, tools):
    """Changes the part maps of a clip, and every number in `meta` that is counted from them, so that they agree."""

    def change(row, what):
        def parts(arrays):
            arrays["parts"] = what(arrays["parts"])

        tools.rewrite(dataset, row, "cond", parts)
        stacked = read_cond(dataset.paths.cond(row.clip)).parts
        if row.has_ext:
            stacked = np.concatenate([stacked, read_cond_ext(dataset.paths.cond_ext(row.clip)).parts])

        def meta(arrays):
            counts = class_px(stacked)
            arrays["class_px"] = counts
            arrays["player_px"] = counts[:, 12:17].sum(axis=1, dtype=np.int32)
            arrays["boss_px"] = counts[:, 17:22].sum(axis=1, dtype=np.int32)
            arrays["static_change"] = static_change(stacked)

        tools.rewrite(dataset, row, "meta", meta)

    return change


def test_untouched_clips_pass_and_are_all_looked_at(dataset, tools):
    for row in read_index(dataset)[0]:
        results = spot_source(dataset, row)
        assert tools.found(results) == {}, row.clip
        assert [r.name for r in results] == list(SOURCE_CHECKS) and all(r.clips_checked == 1 for r in results)
        figure = {r.name: r.figure for r in results}
        assert figure["spot_ids"]["frames"] == (109 if row.has_ext else 81)
        assert figure["spot_oracle"]["character_pixels"] > 100


def test_parts_swapped_everywhere_are_found_though_counts_agree(dataset, tools, lie):
    row = tools.row_of(dataset)

    def swap(parts):
        table = np.arange(256, dtype=np.uint8)
        table[[13, 14]] = [14, 13]
        return table[parts]

    lie(row, swap)
    assert "values" not in tools.found(structural_run(dataset, row.run))
    found = tools.found(spot_source(dataset, row))
    assert found.keys() == {"spot_labels", "spot_oracle", "spot_labels_meta"}


def test_one_pixel_of_another_part_is_found_at_its_frame(dataset, tools, lie):
    row = tools.row_of(dataset)

    def one(parts):
        out = parts.copy()
        at = tuple(np.argwhere(out[50] == 13)[0])
        out[50][at] = 15
        return out

    lie(row, one)
    results = spot_source(dataset, row)
    assert "spot_labels" in tools.found(results)
    assert tools.frames_found(results, "spot_labels") == [row.s + 50]


def test_maps_shifted_by_one_frame_are_found_though_counts_agree(dataset, tools, lie):
    row = tools.row_of(dataset)
    lie(row, lambda parts: np.roll(parts, 1, axis=0))
    assert "values" not in tools.found(structural_run(dataset, row.run))
    assert {"spot_ids", "spot_labels"} <= tools.found(spot_source(dataset, row)).keys()


def test_maps_shifted_by_one_pixel_are_found(dataset, tools, lie):
    row = tools.row_of(dataset)
    lie(row, lambda parts: np.roll(parts, 1, axis=2))
    assert "spot_ids" in tools.found(spot_source(dataset, row))


def test_a_class_changed_in_the_extension_alone_is_found(dataset, tools):
    row = tools.row_of(dataset)

    def change(arrays):
        arrays["parts"][10][arrays["parts"][10] == 1] = 3

    tools.rewrite(dataset, row, "cond_ext", change)
    results = spot_source(dataset, row)
    assert tools.frames_found(results, "spot_ids") == [row.s + 91]


def lens(arrays):
    arrays["K"][:, 0, 2] += 0.75


def moved(arrays):
    arrays["world_to_camera"][:, 0, 3] += 5.0


def short(arrays):
    arrays["capsules"][:, 0, 3:6] = arrays["capsules"][:, 0, 0:3]


@pytest.mark.parametrize(
    ("change", "checks"),
    [(lens, {"spot_labels_meta"}), (moved, {"spot_labels_meta", "spot_row"}), (short, {"spot_row"})],
)
def test_metadata_that_does_not_fit_the_picture_is_found(dataset, tools, change, checks):
    row = tools.row_of(dataset)
    tools.rewrite(dataset, row, "meta", change)
    assert checks <= tools.found(spot_source(dataset, row)).keys()


@pytest.mark.parametrize(
    "change",
    [
        {"look": "x/y"},
        {"ext_look": "x/y"},
        {"episode": 77},
        {"camera_variant": "x"},
        {"prompts": [(0, "x")]},
        {"family": "v8"},
    ],
)
def test_a_row_that_says_otherwise_than_the_recording_is_found(dataset, tools, change):
    row = msgspec.structs.replace(tools.row_of(dataset), **change)
    assert tools.found(spot_source(dataset, row)) == {"spot_row": {row.clip}}


def test_an_extension_that_the_recording_does_not_have_is_found(dataset, tools):
    row = tools.row_of(dataset, ext=False)
    lying = msgspec.structs.replace(row, has_ext=True)
    assert "spot_row" in tools.found(spot_source(dataset, lying))


def replace_member(folder, name, data):
    """Rewrites the shard that holds a member with other bytes for it."""
    for shard in sorted(folder.glob("shard-*.tar")):
        with tarfile.open(shard) as tar:
            members = [(m, tar.extractfile(m).read()) for m in tar]
        if name not in {m.name for m, _ in members}:
            continue
        with tarfile.open(shard, "w") as tar:
            for m, old in members:
                new = data if m.name == name else old
                info = tarfile.TarInfo(m.name)
                info.size = len(new)
                tar.addfile(info, io.BytesIO(new))
        return
    raise AssertionError(name)


def test_invalid_raw_ids_are_found_at_full_resolution(dataset_and_source, tools):
    settings = dataset_and_source
    row = tools.row_of(settings)
    frame = row.s + 90
    folder = settings.src / row.run
    with_bad = np.full((48, 96), 1, np.uint8)
    with_bad[0, 0] = 13  # a body part
    replace_member(folder, f"{frame:06d}.ids.png", cv2.imencode(".png", with_bad)[1].tobytes())
    results = spot_source(settings, row)
    assert tools.frames_found(results, "spot_raw_ids") == [frame]


def test_a_clip_that_cannot_be_read_fails_every_check_and_raises_nothing(dataset, tools):
    row = tools.row_of(dataset)
    dataset.paths.meta(row.clip).unlink()
    assert tools.found(spot_source(dataset, row)).keys() == set(SOURCE_CHECKS)
    assert tools.found(spot_render(dataset, row)).keys() == {"spot_coverage", "spot_iou"}


def test_results_of_several_clips_are_merged(dataset):
    rows = read_index(dataset)[0][:3]
    results = spot_checks(dataset, rows)
    assert len({r.name for r in results}) == len(results) == len(SOURCE_CHECKS) + 2
    assert {r.name: r.clips_checked for r in results}["spot_ids"] == 3


def test_the_sample_is_spread_deterministic_and_free_of_rows_without_files(dataset):
    rows = read_index(dataset)[0]
    sample = spot_rows(rows, 4)
    assert {r.family for r in sample[:2]} == {"v10", "v9"} and {r.has_ext for r in sample[:2]} == {True, False}
    assert len({r.run for r in sample}) == 4
    assert [r.clip for r in spot_rows(rows[::-1], 4)] == [r.clip for r in sample]
    assert len({r.clip for r in spot_rows(rows, 99)}) == len(rows)
    without = [msgspec.structs.replace(r, drop_reason=SOURCE_ERROR) for r in rows]
    assert spot_rows(without, 4) == []


# --- re-render ------------------------------------------------------------------------------------------------------


@pytest.fixture
def rendered(dataset, tools):
    """A clip whose part maps are the re-render of its own meta, with characters large enough to count."""
    row = tools.row_of(dataset, ext=False)
    meta = read_meta(dataset.paths.meta(row.clip))
    geometry = Geometry.fit((96, 48), dataset.size)

    def near(arrays):
        # One big player (a sphere) and one big boss (a capsule), fixed before a camera at the origin looking along z.
        arrays["world_to_camera"][:] = np.eye(4)
        arrays["K"][:] = [[40, 0, 32], [0, 40, 16], [0, 0, 1]]
        capsules = np.full((81, 2, 8), np.nan, np.float32)
        capsules[:, 0] = [-40, 0, 100, -40, 0, 100, 35, 13]
        capsules[:, 1] = [45, -20, 100, 45, 20, 100, 22, 18]
        arrays["capsules"] = capsules
        frame = render_capsules_from_meta(arrays["K"][0], arrays["world_to_camera"][0], capsules[0], geometry)
        frame[frame == 0] = 1
        arrays["player_px"][:] = (frame == 13).sum()
        arrays["boss_px"][:] = (frame == 18).sum()
        near.frame = frame

    tools.rewrite(dataset, row, "meta", near)
    assert len(meta.frames) == 81 and (near.frame == 13).sum() > 300 and (near.frame == 18).sum() > 300
    tools.rewrite(dataset, row, "cond", lambda arrays: arrays["parts"].__setitem__(slice(None), near.frame))
    return row


def test_a_re_render_that_fits_has_full_coverage_and_iou(dataset, tools, rendered):
    results = spot_render(dataset, rendered)
    assert tools.found(results) == {} and all(r.applicable for r in results)
    coverage, iou = results
    assert coverage.figure["player_coverage_min"] == 1 and coverage.figure["boss_coverage_min"] == 1
    assert iou.figure["player_median_iou_min"] == 1 and iou.figure["player_unoccluded_frames"] == 81


def test_characters_beside_their_re_render_are_found(dataset, tools, rendered):
    tools.rewrite(dataset, rendered, "meta", lambda a: a["capsules"][:, 0, [0, 3]].__iadd__(6))

    def shift(arrays):
        arrays["capsules"][:, 0, 0] += 6
        arrays["capsules"][:, 0, 3] += 6

    tools.rewrite(dataset, rendered, "meta", shift)
    assert tools.found(spot_render(dataset, rendered))["spot_coverage"] == {rendered.clip}


def test_a_re_render_larger_than_the_character_fails_the_iou_alone(dataset, tools, rendered):
    def grow(arrays):
        arrays["capsules"][:, 0, 6] += 1.0  # a rim of one pixel: more would count as occlusion

    tools.rewrite(dataset, rendered, "meta", grow)
    results = spot_render(dataset, rendered)
    assert tools.found(results) == {"spot_iou": {rendered.clip}}
    assert results[1].figure["boss_median_iou_min"] == 1


def test_a_character_behind_a_rock_is_occluded_not_wrong(dataset, tools, rendered):
    def rock(arrays):
        arrays["parts"][:, 14:18, 10:22] = 3

    tools.rewrite(dataset, rendered, "cond", rock)
    results = spot_render(dataset, rendered)
    assert tools.found(results) == {}
    assert "player_median_iou_min" not in results[1].figure and results[1].figure["player_pooled_iou_min"] < 0.99


def test_small_characters_make_the_check_not_applicable(dataset, tools):
    row = tools.row_of(dataset)
    results = spot_render(dataset, row)
    assert all(not r.applicable and r.passed for r in results)


def test_unoccluded_means_nothing_inside_the_eroded_silhouette():
    silhouette = np.zeros((20, 20), bool)
    silhouette[4:16, 4:16] = True
    parts = np.where(silhouette, 13, 1).astype(np.uint8)
    assert is_unoccluded(parts, silhouette, "player")
    rim = parts.copy()
    rim[4:6, 4:16] = 1  # within 2 px of the border: resampling, not occlusion
    assert is_unoccluded(rim, silhouette, "player")
    for inside in (1, 18):
        covered = parts.copy()
        covered[6, 10] = inside
        assert not is_unoccluded(covered, silhouette, "player")
    assert not is_unoccluded(parts, silhouette, "boss")
    edge = np.zeros((20, 20), bool)
    edge[:, :6] = True  # cut by the picture's edge: the edge erodes nothing
    parts = np.where(edge, 13, 1).astype(np.uint8)
    parts[10, 0] = 3
    assert not is_unoccluded(parts, edge, "player")


def test_json_of_the_tiny_source_is_what_the_checks_believe(tiny_source):
    """Guards the guard: the independent reader finds as many frames as the run lists."""
    from gc25d_core.verify.raw_source import RawRun

    for folder in tiny_source.iterdir():
        raw = RawRun(tiny_source, folder.name)
        starts = json.loads((folder / "run.json").read_text())["clip_starts"]
        assert all(raw.has(s, kind) for s in starts for kind in ("jpg", "ids", "json"))
        assert raw.rgb(starts[0]).shape == (48, 96, 3) and raw.record(starts[0])["frame"] == starts[0]
