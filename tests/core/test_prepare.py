"""The two steps on runs whose pixels say their frame number: alignment, resume, faults, fingerprints."""

import os
from contextlib import contextmanager

import cv2
import numpy as np
import pytest
import torch

from gc25d_core.classes import collapse_parts
from gc25d_core.errors import SystemFault
from gc25d_core.geometry import Geometry
from gc25d_core.outputs.files import read_cond, read_cond_ext, read_latents, read_meta
from gc25d_core.outputs.fingerprint import CODE_VERSION
from gc25d_core.plan import plan_run
from gc25d_core.prepare import prepare_conditions, prepare_latents
from gc25d_core.prepare.latents import clip_rgb
from gc25d_core.source import open_run
from gc25d_core.synth.numbered import (
    block_number_of_actions,
    frame_number_of_ids,
    frame_number_of_rgb,
    is_rgb_order,
    write_numbered_run,
)

RUN = "P9_n"
NAME = "01_valley__P9_n__{:06d}"


@pytest.fixture
def numbered(settings_for):
    """Two clips, 200 (with extension) and 320 (without), shuffled over shards."""
    s = settings_for()
    write_numbered_run(s.src, RUN, n_frames=220, first_frame=200, clip_starts=[320, 200], shuffle_seed=3)
    return s


def jpg_of(rgb):
    return cv2.imencode(".jpg", rgb[..., ::-1])[1].tobytes()


def png_of(ids):
    return cv2.imencode(".png", ids)[1].tobytes()


def stamps(settings):
    return {
        p.relative_to(settings.out): (p.stat().st_ino, p.stat().st_mtime_ns)
        for kind in ("latents", "cond", "cond_ext", "meta")
        for p in (settings.out / kind).glob("*")
    }


def test_condition_maps_show_their_own_frame_numbers(numbered):
    report = prepare_conditions(numbered, RUN)
    assert (report.planned, report.made, report.skipped, report.failed) == (2, 2, 0, 0)
    assert report.made_by_kind == {"cond": 2, "meta": 2, "cond_ext": 1}
    for s in (200, 320):
        cond = read_cond(numbered.paths.cond(NAME.format(s)))
        assert [frame_number_of_ids(f) for f in cond.parts] == list(range(s, s + 81))
    ext = read_cond_ext(numbered.paths.cond_ext(NAME.format(200)))
    assert [frame_number_of_ids(f) for f in ext.parts] == list(range(281, 309))
    assert not numbered.paths.cond_ext(NAME.format(320)).exists()
    meta = read_meta(numbered.paths.meta(NAME.format(200)))
    assert meta.frames.tolist() == list(range(200, 309)) and meta.capsules.shape == (109, 10, 8)
    assert meta.K[0].tolist() == [[64.0, 0.0, 32.0], [0.0, 64.0, 16.0], [0.0, 0.0, 1.0]]
    parts = read_cond(numbered.paths.cond(NAME.format(200))).parts
    assert meta.player_px[5] == int(np.isin(parts[5], range(12, 17)).sum()) > 0


def test_condition_maps_collapse_to_the_ids_of_the_recording(numbered):
    prepare_conditions(numbered, RUN)
    parts = read_cond(numbered.paths.cond(NAME.format(200))).parts
    source = open_run(numbered.src, RUN, cache=None)
    i, j = (np.arange(64) * 3 + 1) // 2, (np.arange(32) * 3 + 1) // 2  # floor((i + 0.5) 1.5), in whole numbers
    for k in range(81):
        raw = cv2.imdecode(np.frombuffer(source.read(200 + k, "ids"), np.uint8), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(collapse_parts(parts[k]), raw[j][:, i])


def test_pictures_come_in_frame_order_and_rgb(numbered):
    source = open_run(numbered.src, RUN, cache=None)
    clip = plan_run(numbered, RUN).clips[0]
    video = clip_rgb(source, clip, Geometry.fit((96, 48), (64, 32)))
    assert video.shape == (81, 32, 64, 3)
    assert [frame_number_of_rgb(f) for f in video] == list(range(200, 281))
    assert all(is_rgb_order(f) for f in video)


def test_latents_carry_frames_and_the_blocks_that_drive_their_cells(numbered):
    report = prepare_latents(numbered, RUN)
    assert (report.made, report.precision_used) == (2, "exact")
    a, b = (read_latents(numbered.paths.latents(NAME.format(s))) for s in (200, 320))
    assert a.latent_bits.shape == (48, 21, 2, 4) and a.frames.tolist() == list(range(200, 281))
    assert [block_number_of_actions(x) for x in a.actions_block] == list(range(50, 77))
    assert [block_number_of_actions(x) for x in b.actions_block] == list(range(80, 100))
    loaded = torch.load(numbered.paths.latents(NAME.format(200)), weights_only=True)
    assert loaded["latent"].dtype == torch.bfloat16 and torch.isfinite(loaded["latent"].float()).all()
    size = numbered.paths.latents(NAME.format(200)).stat().st_size
    assert size < 48 * 21 * 2 * 4 * 2 + 8000, "a saved view would carry its whole storage"


def test_a_cell_sees_its_own_frames_and_no_later_ones(settings_for):
    """Frame s+41 is the first of cell 11: changing it leaves cells 0..10 bit for bit and changes cell 11."""
    s = settings_for()
    other = np.zeros((48, 96, 3), np.uint8)
    write_numbered_run(s.src, "P9_a", n_frames=81, clip_starts=[0])
    write_numbered_run(
        s.src,
        "P9_b",
        n_frames=81,
        clip_starts=[0],
        member_hook=lambda f, kind, data: jpg_of(other) if (f, kind) == (41, "jpg") else data,
    )
    for run in ("P9_a", "P9_b"):
        prepare_latents(s, run)
    a, b = (read_latents(s.paths.latents(f"01_valley__{r}__000000")).latent_bits for r in ("P9_a", "P9_b"))
    changed = [bool((a[:, k] != b[:, k]).any()) for k in range(21)]
    assert changed[:11] == [False] * 11 and changed[11]


def test_a_second_build_is_a_no_op_that_says_so(numbered):
    prepare_conditions(numbered, RUN)
    prepare_latents(numbered, RUN)
    before = stamps(numbered)
    for step in (prepare_conditions, prepare_latents):
        report = step(numbered, RUN)
        assert (report.made, report.skipped, report.bytes_written) == (0, 2, 0)
        assert report.sentence.startswith("skipped 2, made 0") and "force" in report.sentence
    assert stamps(numbered) == before


def test_a_lost_or_damaged_file_is_redone_and_nothing_else(numbered):
    prepare_conditions(numbered, RUN)
    before = stamps(numbered)
    numbered.paths.cond(NAME.format(200)).unlink()
    os.truncate(numbered.paths.meta(NAME.format(320)), 500)
    report = prepare_conditions(numbered, RUN)
    assert (report.made, report.made_by_kind) == (2, {"cond": 1, "meta": 1})
    after = stamps(numbered)
    changed = {str(p) for p in after if before.get(p) != after[p]}
    assert changed == {f"cond/{NAME.format(200)}.npz", f"meta/{NAME.format(320)}.npz"}


def test_force_redoes_all_of_the_run_to_the_same_content(numbered):
    prepare_conditions(numbered, RUN)
    path = numbered.paths.meta(NAME.format(200))
    content, before = read_meta(path).content_hash, stamps(numbered)
    assert prepare_conditions(numbered, RUN, force=True).made == 2
    after = stamps(numbered)
    assert all(after[p] != before[p] for p in before) and set(after) == set(before)
    assert read_meta(path).content_hash == content


def test_one_changed_member_makes_exactly_what_uses_it_stale(settings_for):
    s = settings_for()
    write_numbered_run(s.src, RUN, n_frames=109, clip_starts=[0])
    prepare_conditions(s, RUN)
    before = stamps(s)

    def rewrite(frame, kind):
        for p in (s.src / RUN).iterdir():
            p.unlink()
        (s.src / RUN).rmdir()
        mark = lambda f, k, data: data.replace(b'"fixed"', b'"fixed" ') if (f, k) == (frame, kind) else data  # noqa: E731
        write_numbered_run(s.src, RUN, n_frames=109, clip_starts=[0], member_hook=mark)

    rewrite(90, "json")  # in the extension: cond does not use it
    assert prepare_conditions(s, RUN).made_by_kind == {"cond_ext": 1, "meta": 1}
    rewrite(-1, "json")  # back again
    assert prepare_conditions(s, RUN).made_by_kind == {"cond_ext": 1, "meta": 1}
    after = stamps(s)
    assert [str(p.parent) for p in after if after[p] == before[p]] == ["cond"]


def test_a_new_code_version_of_one_kind_makes_that_kind_stale(numbered, monkeypatch):
    prepare_conditions(numbered, RUN)
    monkeypatch.setitem(CODE_VERSION, "cond", 99)
    assert prepare_conditions(numbered, RUN).made_by_kind == {"cond": 2}


def test_an_extension_that_is_gone_takes_its_file_along(settings_for):
    s = settings_for()
    write_numbered_run(s.src, RUN, n_frames=109, clip_starts=[0])
    prepare_conditions(s, RUN)
    path = s.paths.cond_ext("01_valley__P9_n__000000")
    assert path.exists()
    blocks = s.src / RUN / "blocks.jsonl"
    blocks.write_bytes(b"\n".join(blocks.read_bytes().splitlines()[:-2]) + b"\n")
    report = prepare_conditions(s, RUN)
    assert report.removed == 1 and not path.exists() and report.made_by_kind == {"meta": 1}


def test_faults_stop_their_clip_and_no_other(settings_for, new_run):
    s = settings_for()
    b = new_run(frames=336, clip_starts=[0, 112, 224])
    ids = np.ones((48, 96), np.uint8)
    ids[0, 0] = 13
    b.members["000120.ids.png"] = png_of(ids)
    b.set_json(130, capsules=[])
    b.members["000231.jpg"] = b.members["000231.jpg"][:-30]
    b.write(s.src)
    conditions, latents = prepare_conditions(s, b.run), prepare_latents(s, b.run)
    assert (conditions.made, conditions.failed) == (2, 1) and (latents.made, latents.failed) == (2, 1)
    assert [(f.kind, f.frame, f.member, f.clip[-6:]) for f in conditions.faults] == [
        ("bad_ids", 120, "000120.ids.png", "000112"), ("no_capsules", 130, "000130.json", "000112"),
    ]  # fmt: skip
    assert "13" in conditions.faults[0].got and conditions.faults[0].shard == "shard-000000.tar"
    assert [(f.kind, f.frame, f.clip[-6:]) for f in latents.faults] == [("bad_jpeg", 231, "000224")]
    assert s.paths.faults(b.run, "conditions").read_text().count("\n") == 2
    left = [n for _, _, names in os.walk(s.out) for n in names if ".tmp" in n]
    assert left == []


def test_a_full_disk_stops_the_step_and_keeps_what_was_published(numbered, monkeypatch):
    from gc25d_core.outputs import publish

    real, written = os.fsync, []

    def fsync(fd):
        written.append(fd)
        if os.readlink(f"/proc/self/fd/{fd}").count("/meta/01_valley__P9_n__000320"):
            raise OSError(28, "No space left on device")
        return real(fd)

    monkeypatch.setattr(publish.os, "fsync", fsync)
    with pytest.raises(SystemFault, match="No space left"):
        prepare_conditions(numbered, RUN)
    monkeypatch.undo()
    assert {str(p) for p in stamps(numbered)} >= {f"{k}/{NAME.format(200)}.npz" for k in ("cond", "meta", "cond_ext")}
    report = prepare_conditions(numbered, RUN)
    assert report.skipped == 1 and report.made == 1


def test_more_workers_make_the_same_content(settings_for):
    contents = []
    for i, workers in enumerate((1, 3)):
        s = settings_for(workers=workers)
        if i == 0:
            write_numbered_run(s.src, RUN, n_frames=220, first_frame=200, clip_starts=[320, 200])
        prepare_conditions(s, RUN, force=True)
        contents.append([read_meta(s.paths.meta(NAME.format(k))).content_hash for k in (200, 320)])
    assert contents[0] == contents[1]


def test_asking_for_a_gpu_that_is_not_there_is_a_clear_error(settings_for):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    s = settings_for(device="cuda")
    write_numbered_run(s.src, RUN, n_frames=81, clip_starts=[0])
    with pytest.raises(SystemFault, match="no GPU"):
        prepare_latents(s, RUN)


def test_a_shared_device_is_held_for_the_encoding_alone(numbered):
    seen = []

    @contextmanager
    def turn():
        seen.append(len(list((numbered.out / "latents").glob("*"))))
        yield
        seen.append("given back")

    report = prepare_latents(numbered, RUN, turn=turn)
    assert seen == [0, "given back"]
    assert report.made == 2 and report.seconds["waiting_for_turn"] < report.seconds["starting"]
    assert prepare_latents(numbered, RUN, turn=turn).skipped == 2
    assert seen == [0, "given back"], "finished work asks for no device"
