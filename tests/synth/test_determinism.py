"""The bytes depend on the options alone; the names do not even depend on the seed."""

from __future__ import annotations

import hashlib
import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gc25d_core.synth import default_run_names, iter_frames, plan_source, write_source
from gc25d_core.synth.plan import SPECIALS


def _digest(root: Path) -> dict[str, str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_two_workers_write_the_same_bytes_as_none(tmp_path: Path) -> None:
    write_source(tmp_path / "a", runs=2, clips=1, size=(48, 24), seed=5, workers=1)
    write_source(tmp_path / "b", runs=2, clips=1, size=(48, 24), seed=5, workers=2)
    assert _digest(tmp_path / "a") == _digest(tmp_path / "b")
    assert len(_digest(tmp_path / "a")) > 6


def test_another_seed_writes_other_pictures(tmp_path: Path) -> None:
    write_source(tmp_path / "a", runs=1, clips=1, size=(48, 24), seed=5, workers=1)
    write_source(tmp_path / "b", runs=1, clips=1, size=(48, 24), seed=6, workers=1)
    a, b = _digest(tmp_path / "a"), _digest(tmp_path / "b")
    assert all(a[name] != b[name] for name in a.keys() & b.keys() if name.endswith(".tar"))


def test_resume_writes_what_is_missing_and_keeps_the_rest(tmp_path: Path) -> None:
    options = {"runs": 2, "clips": 1, "size": (48, 24), "seed": 5, "workers": 1}
    write_source(tmp_path, **options)
    before = _digest(tmp_path)
    shutil.rmtree(tmp_path / "R10_s1501")
    kept = (tmp_path / "R10_s1512" / "shard-000000.tar").stat().st_mtime_ns
    write_source(tmp_path, **options, resume=True)
    assert _digest(tmp_path) == before
    assert (tmp_path / "R10_s1512" / "shard-000000.tar").stat().st_mtime_ns == kept
    write_source(tmp_path, **options, resume=True)
    with pytest.raises(FileExistsError, match="other options"):
        write_source(tmp_path, **options | {"size": (64, 32)}, resume=True)


def test_a_run_that_is_there_stops_everything_before_the_first_write(tmp_path: Path) -> None:
    (tmp_path / "R10_s1512").mkdir()
    with pytest.raises(FileExistsError, match="R10_s1512"):
        write_source(tmp_path, runs=3, clips=1, size=(48, 24), seed=5, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["R10_s1512"]


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"clips": 0}, {"size": (8, 48)}])
def test_options_that_make_no_source_are_refused(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(ValueError, match="need runs"):
        write_source(tmp_path, **{"runs": 1, "clips": 1, "size": (48, 24), "seed": 0, "workers": 1} | wrong)


def test_run_names_are_legal_unique_and_grow_without_changing() -> None:
    names = default_run_names(300)
    assert names[:5] == ["R10_s1501", "R10_s1512", "P9C_autumn_s1941", "P9_golden_s2916", "P9_golden_s2909"]
    assert len(set(names)) == 300
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert default_run_names(7) == names[:7]
    families = [name.startswith("R10") for name in names[5:]]
    assert all(a != b for a, b in pairwise(families))


def test_a_large_source_shows_every_special_and_no_overlap() -> None:
    plans = plan_source(runs=64, clips=10, size=(96, 48), seed=3)
    clips = [clip for plan in plans for clip in plan.clips]
    assert set().union(*(clip.specials for clip in clips)) == {*SPECIALS, "look_change"}
    for plan in plans:
        for one, two in pairwise(plan.clips):
            assert one.start + 109 <= two.start and two.start % 4 == 0
    early = [clip for clip in clips if "ends_early" in clip.specials]
    assert all(81 < clip.n_frames < 109 for clip in early)
    gaps = [
        clip for clip in clips if "gap_block" in clip.specials and not clip.specials & {"no_last_block", "ends_early"}
    ]
    assert gaps and all(
        b - clip.start // 4 in (22, 24) for clip in gaps for b in clip.blocks if b - clip.start // 4 in (22, 23, 24)
    )


def test_iter_frames_repeats_itself_and_differs_by_seed_and_family() -> None:
    first, again = (list(iter_frames("v10", 3, (64, 32), 3)) for _ in range(2))
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one.rgb, two.rgb) and np.array_equal(one.ids, two.ids) and one.json == two.json
    others = [next(iter(iter_frames(family, seed, (64, 32), 1))) for family, seed in (("v10", 4), ("v9", 3))]
    for other in others:
        assert np.mean(other.ids != first[0].ids) > 0.05
        assert other.json["camera"] != first[0].json["camera"]


def test_iter_frames_yields_n_moving_frames_of_the_size() -> None:
    frames = list(iter_frames("v9", 1, (80, 40), 5))
    assert len(frames) == 5
    assert all(
        f.rgb.shape == (40, 80, 3) and f.ids.shape == (40, 80) and f.rgb.dtype == f.ids.dtype == np.uint8
        for f in frames
    )
    assert all(not np.array_equal(a.rgb, b.rgb) for a, b in pairwise(frames))


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="v11"):
        next(iter_frames("v11", 1, (64, 32), 1))
