"""Numbers of the look change on hand-made histograms, and on the tiny data set."""

import io
import json

import numpy as np
import pytest

from gc25d_core.clip_stats import class_histogram_step
from gc25d_core.errors import OutputError
from gc25d_core.index import read_index
from gc25d_core.look_change import LOOK_STEP, STEPS, group_numbers, look_change, look_change_plot


def counts(*, jump_at, size=0.0, frames=109):
    """class_px of frames that are all ground until `jump_at`, then lose a share to rock; the player does not count."""
    out = np.zeros((frames, 22), np.int32)
    out[:, 1] = 1000
    out[jump_at:, 1] = round(1000 * (1 - size))
    out[jump_at:, 3] = round(1000 * size)
    out[:, 13] = np.arange(frames)
    return out


def group(*clips, static=None):
    l1 = np.stack(clips)
    return group_numbers("v10", True, l1, np.zeros_like(l1) if static is None else static)


def steps(value, others=0.01):
    out = np.full(STEPS, others)
    out[LOOK_STEP] = value
    return out


def test_the_step_is_between_frames_80_and_81():
    l1 = class_histogram_step(counts(jump_at=81, size=0.2))
    assert l1.shape == (STEPS,) == (108,)
    assert l1[LOOK_STEP] == pytest.approx(0.4) and l1.sum() == pytest.approx(0.4)
    assert class_histogram_step(counts(jump_at=80, size=0.2))[LOOK_STEP] == 0


def test_histograms_are_normalised_over_the_static_classes():
    doubled = counts(jump_at=81, size=0.2)
    doubled[81:, :7] //= 2  # half of the pixels covered by a character: the same shares
    assert class_histogram_step(doubled)[LOOK_STEP] == pytest.approx(0.4)


def test_median_p90_max_and_all_other_steps():
    values = np.linspace(0.1, 1.1, 11)
    g = group(*(steps(v, others=0.01 * i) for i, v in enumerate(values)))
    assert (g.step_median, g.step_p90, g.step_max) == pytest.approx((0.6, 1.0, 1.1))
    assert g.other_median == pytest.approx(0.05) and g.clips == 11
    assert g.curve_median[LOOK_STEP] == pytest.approx(0.6) and g.curve_median[0] == pytest.approx(0.05)
    assert g.curve_p10[LOOK_STEP] == pytest.approx(0.2) and g.curve_p90[LOOK_STEP] == pytest.approx(1.0)


def test_how_often_the_largest_step_is_the_look_step():
    late = steps(0.3)
    late[50] = 0.31
    assert group(steps(0.3), late, steps(0.0), steps(0.01)).largest_is_step == 1  # a tie is not the largest


def test_steps_without_static_pixels_do_not_count():
    hidden = steps(np.nan)
    g = group(hidden, steps(0.5))
    assert (g.step_median, g.step_max, g.largest_is_step) == (0.5, 0.5, 1)
    g = group(hidden)
    assert (g.step_median, g.step_p90, g.largest_is_step, g.curve_median[LOOK_STEP]) == (None, None, 0, None)


def test_static_change_at_the_step_and_elsewhere():
    static = np.full((3, STEPS), 0.02)
    static[:, LOOK_STEP] = (0.1, 0.3, 0.8)
    g = group(steps(0.1), steps(0.1), steps(0.1), static=static)
    assert (g.static_change_step, g.static_change_other) == pytest.approx((0.3, 0.02))


def test_the_report_covers_every_clip_with_an_extension_by_family_and_change(dataset):
    report = look_change(dataset)
    rows, index_hash = read_index(dataset)
    have = {(g.family, g.look_change): g.clips for g in report.groups}
    wanted = {}
    for r in rows:
        if r.has_ext:
            wanted[r.family, r.ext_look_change] = wanted.get((r.family, r.ext_look_change), 0) + 1
    assert have == wanted and report.clips_without_ext == sum(not r.has_ext for r in rows)
    assert ("v10", True) in have and ("v9", False) in have
    written = json.loads(dataset.paths.look_change.read_text())
    assert written["index_hash"] == index_hash and written["pool_sizes"]["all"]
    assert "policy" not in written, "it would be stale after the next decision"
    assert [g["clips"] for g in written["by_group"]] == [g["clips"] for g in written["groups"]]
    assert (dataset.paths.look_change.with_suffix(".png")).read_bytes().startswith(b"\x89PNG")
    changing = next(g for g in report.groups if g.look_change)
    staying = next(g for g in report.groups if g.family == "v9")
    assert changing.step_median > 3 * changing.other_median and changing.largest_is_step == changing.clips
    assert staying.step_median < changing.step_median
    assert [row["family"] for row in report.table()] == [g.family for g in report.groups]
    assert {row["look"] for row in report.table()} == {"changes", "stays"}


def test_the_plot_is_a_picture_with_something_in_it(dataset):
    from PIL import Image

    image = np.asarray(Image.open(io.BytesIO(look_change_plot(look_change(dataset)))).convert("RGB"))
    assert image.shape[0] > 300 and image.shape[1] > 600
    red = (image[..., 0] > 150) & (image[..., 1] < 90) & (image[..., 2] < 90)
    assert red.sum() > 100  # the curve of the clips that change


def test_a_shortened_meta_names_its_clip(dataset):
    row = next(r for r in read_index(dataset)[0] if r.has_ext)
    other = next(r for r in read_index(dataset)[0] if not r.has_ext)
    dataset.paths.meta(row.clip).write_bytes(dataset.paths.meta(other.clip).read_bytes())
    with pytest.raises(OutputError, match=row.clip):
        look_change(dataset)


def test_an_index_without_extensions_gives_an_empty_report_and_a_plot(dataset):
    lines = [x for x in dataset.paths.clips_jsonl.read_bytes().splitlines(keepends=True) if b'"has_ext":false' in x]
    dataset.paths.clips_jsonl.write_bytes(b"".join(lines))
    report = look_change(dataset)
    assert report.groups == () and report.table() == [] and look_change_plot(report)[:4] == b"\x89PNG"
