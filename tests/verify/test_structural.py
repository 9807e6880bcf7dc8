"""The structural checks find every kind of damage, and name the clip it is in."""

import dataclasses
import json
import shutil
import zipfile

import msgspec
import numpy as np
import pytest

from gc25d_core.errors import Fault
from gc25d_core.faults import accept_fault
from gc25d_core.outputs.ready import building
from gc25d_core.prepare.faults import write_faults
from gc25d_core.rows import index_run, read_rows
from gc25d_core.source import list_runs
from gc25d_core.verify import structural_run
from gc25d_core.verify.containers import read_raw

KINDS = ("latents", "cond", "cond_ext", "meta")


def member_data(path):
    """(name, offset of its stored bytes, how many) of every member of a zip."""
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as z:
        for info in z.infolist():
            name_and_extra = int.from_bytes(
                raw[info.header_offset + 26 : info.header_offset + 28], "little"
            ) + int.from_bytes(raw[info.header_offset + 28 : info.header_offset + 30], "little")
            yield info.filename, info.header_offset + 30 + name_and_extra, info.compress_size


def test_an_untouched_data_set_passes_every_check(dataset):
    for run in list_runs(dataset.src):
        results = structural_run(dataset, run)
        assert [r.name for r in results if not r.passed] == []
        assert all(r.applicable for r in results)
        assert {
            r.clips_checked for r in results if r.name in ("rows", "files", "values", "content_hash", "fingerprint")
        } == {2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_in_any_member_of_any_file_is_found_at_its_clip(dataset, tools, flip_bit, kind):
    row = tools.row_of(dataset)
    path = dataset.paths.clip(kind, row.clip)
    whole = path.read_bytes()
    content, provenance = read_raw(kind, path)
    for name, offset, size in list(member_data(path)):
        caught = []
        for position in sorted({offset, offset + size // 3, offset + size // 2, offset + size - 1}) if size else ():
            flip_bit(path, position)
            found = tools.found(structural_run(dataset, row.run))
            if not found:
                # Deflate can say the same in two ways (a repeat of a repeat): then nothing has changed for any reader.
                again, said = read_raw(kind, path)
                assert said == provenance and all(
                    np.array_equal(again[k], content[k], equal_nan=k == "capsules") for k in content
                )
            caught.append(found == {"files": {row.clip}})
            path.write_bytes(whole)
        assert size == 0 or any(caught), f"no flipped bit found in {name}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_or_cut_file_is_found_at_its_clip(dataset, tools, kind):
    row = tools.row_of(dataset)
    path = dataset.paths.clip(kind, row.clip)
    path.write_bytes(path.read_bytes()[:-40])
    assert tools.found(structural_run(dataset, row.run)) == {"files": {row.clip}}
    path.unlink()
    assert tools.found(structural_run(dataset, row.run)) == {"files": {row.clip}}


def test_one_swapped_label_is_found_at_its_frame_by_hash_and_by_count(dataset, tools):
    row = tools.row_of(dataset)

    def swap(arrays):
        at = np.argwhere(arrays["parts"][40] == 13)[0]
        arrays["parts"][40][tuple(at)] = 14

    tools.rewrite(dataset, row, "cond", swap)
    results = structural_run(dataset, row.run)
    assert {"content_hash", "values"} <= tools.found(results).keys()
    assert all(clips == {row.clip} for clips in tools.found(results).values())
    assert set(tools.frames_found(results, "values")) == {row.s + 40}
    # Rows made from the broken file agree with it again; the pixel counts still do not.
    index_run(dataset, row.run)
    assert tools.found(structural_run(dataset, row.run)) == {"values": {row.clip}}


def shift_frames(arrays):
    arrays["frames"] += 1


def roll_parts(arrays):
    arrays["parts"][:] = np.roll(arrays["parts"], 1, axis=0)


def bad_id(arrays):
    arrays["parts"][3, 0, 0] = 10


def nan_latent(arrays):
    arrays["latent"].flat[7] = 0x7FC0


def huge_latent(arrays):
    arrays["latent"].flat[7] = np.float32(1e4).view(np.uint32) >> 16


def flat_latent(arrays):
    arrays["latent"][:] = 0


def other_action(arrays):
    arrays["actions_block"][5, 0] ^= 1


def more_player(arrays):
    arrays["player_px"][9] += 1


def more_change(arrays):
    arrays["static_change"][80] += 0.01


def sunk(arrays):
    arrays["ground_z"][9] -= 1


def no_radius(arrays):
    arrays["capsules"][5, 0, 6] = 0


def unpadded(arrays):
    arrays["capsules"][5, -1] = np.nan
    arrays["capsules"][5, -1, 7] = 12


def singular(arrays):
    arrays["K"][5, 0, 0] = -1


def no_pose(arrays):
    arrays["world_to_camera"][5, 3, 3] = 2


def other_geometry(arrays):
    said = json.loads(str(arrays["geometry"]))
    arrays["geometry"] = np.array(
        json.dumps({**said, "crop": [0, 0, *said["crop"][2:]], "source": [90, 48]}, sort_keys=True)
    )


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("latents", shift_frames), ("meta", shift_frames), ("cond", roll_parts), ("cond_ext", roll_parts), ("cond", bad_id),
        ("latents", nan_latent), ("latents", huge_latent), ("latents", flat_latent), ("latents", other_action),
        ("meta", more_player), ("meta", more_change), ("meta", sunk), ("meta", no_radius), ("meta", unpadded),
        ("meta", singular), ("meta", no_pose), ("meta", other_geometry),
    ],
)  # fmt: skip
def test_a_wrong_value_is_found_even_where_the_row_was_made_from_it(dataset, tools, kind, change):
    row = tools.row_of(dataset)
    tools.rewrite(dataset, row, kind, change)
    if change not in (no_radius, unpadded):  # no row is made from capsules that cannot be
        assert not index_run(dataset, row.run).missing
    assert tools.found(structural_run(dataset, row.run)).get("values") == {row.clip}


def fewer_frames(arrays):
    arrays["parts"] = arrays["parts"][:-1].copy()


def wider(arrays):
    arrays["parts"] = np.repeat(arrays["parts"], 2, axis=2)


def long_counts(arrays):
    arrays["class_px"] = arrays["class_px"].astype(np.int64)


def lacks_dead(arrays):
    del arrays["dead"]


@pytest.mark.parametrize(
    ("kind", "change"), [("cond", wider), ("cond_ext", fewer_frames), ("meta", long_counts), ("meta", lacks_dead)]
)
def test_a_wrong_shape_dtype_or_member_is_found(dataset, tools, kind, change):
    row = tools.row_of(dataset)
    tools.rewrite(dataset, row, kind, change)
    assert tools.found(structural_run(dataset, row.run)).get("shapes") == {row.clip}


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_fingerprint_or_a_file_of_another_clip_is_found(dataset, tools, kind):
    row = tools.row_of(dataset)
    tools.rewrite(dataset, row, kind, tools.no_changes, fingerprint="0" * 32)
    assert tools.found(structural_run(dataset, row.run)).get("fingerprint") == {row.clip}
    tools.rewrite(dataset, row, kind, tools.no_changes, clip="01_valley__other__000000")
    assert tools.found(structural_run(dataset, row.run)).get("fingerprint") == {row.clip}


def test_other_settings_make_every_fingerprint_wrong(dataset, tools):
    run = list_runs(dataset.src)[0]
    other = dataclasses.replace(dataset, precision="fast")
    [result] = [r for r in structural_run(other, run) if r.name == "fingerprint"]
    assert result.findings == 2  # the latents of both clips; the other kinds do not depend on it


ROW_CHANGES = {
    "family": "v8", "split": "test", "has_ext": False, "drop_reason": "buried_player", "look": "x/y", "ext_look": "x/y",
    "episode": 99, "camera_variant": "none", "max_frame_offset_cm": 1e6, "player_px_mean": 0.5, "boss_px_mean": 1e4,
    "boss_visible_frac": 0.123, "player_hidden_frac": 0.321, "n_blocks": 20, "prompts": [(0, "nothing")], "outputs": {},
}  # fmt: skip


@pytest.mark.parametrize("field", [*ROW_CHANGES, "ext_look_change", "mirrored_world"])
def test_any_changed_field_of_a_row_is_found_at_its_clip(dataset, tools, field):
    row = tools.row_of(dataset)
    value = ROW_CHANGES[field] if field in ROW_CHANGES else not getattr(row, field)
    tools.rewrite_row(dataset, row, **{field: value})
    found = tools.found(structural_run(dataset, row.run))
    assert found and all(clips == {row.clip} for clips in found.values())
    assert found.keys() <= {"rows", "row_statistics"}


@pytest.mark.parametrize("field", ["path", "bytes", "hash"])
def test_an_output_that_says_otherwise_is_found(dataset, tools, field):
    row = tools.row_of(dataset)
    wrong = {"path": "cond/x.npz", "bytes": 1, "hash": "0" * 32}[field]
    output = msgspec.structs.replace(row.outputs["cond"], **{field: wrong})
    tools.rewrite_row(dataset, row, outputs={**row.outputs, "cond": output})
    found = tools.found(structural_run(dataset, row.run))
    assert found == {{"path": "rows", "bytes": "files", "hash": "content_hash"}[field]: {row.clip}}


def test_a_lost_a_doubled_and_a_torn_row_are_found(dataset, tools):
    row = tools.row_of(dataset)
    path = dataset.paths.rows(row.run)
    lines = path.read_bytes().splitlines(keepends=True)
    mine = next(line for line in lines if row.clip.encode() in line)
    path.write_bytes(b"".join(line for line in lines if line is not mine))
    assert tools.found(structural_run(dataset, row.run)) == {"rows": {row.clip}}
    path.write_bytes(mine + b"".join(lines))
    assert "rows" in tools.found(structural_run(dataset, row.run))
    path.write_bytes(b"".join(lines)[:-20])
    assert "rows" in tools.found(structural_run(dataset, row.run))
    path.unlink()
    assert "rows" in tools.found(structural_run(dataset, row.run))


def test_rows_out_of_order_are_found(dataset, tools):
    run = list_runs(dataset.src)[0]
    path = dataset.paths.rows(run)
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    assert tools.found(structural_run(dataset, run)).keys() == {"rows"}


def test_a_fault_with_a_row_is_found_until_it_is_accepted_and_indexed(dataset, tools):
    row = tools.row_of(dataset)
    with building(dataset) as build:
        write_faults(
            dataset, row.run, "conditions", [Fault("bad_ids", "ids 12", row.run, clip=row.clip, frame=row.s)], build
        )
    assert tools.found(structural_run(dataset, row.run)) == {"rows": {row.clip}}
    accept_fault(dataset, row.run, row.clip, reason="known", who="a test")
    assert tools.found(structural_run(dataset, row.run)) == {"rows": {row.clip}}  # the row still speaks of files
    index_run(dataset, row.run)
    assert tools.found(structural_run(dataset, row.run)) == {}
    [accepted] = [r for r in read_rows(dataset.paths, row.run) if r.clip == row.clip]
    assert (accepted.drop_reason, accepted.outputs) == ("source_error", {})


def test_changed_prompts_and_actions_of_the_source_are_found(dataset_and_source, tools):
    settings = dataset_and_source
    row = tools.row_of(settings)
    path = settings.src / row.run / "blocks.jsonl"
    blocks = [json.loads(line) for line in path.read_text().splitlines()]
    at = next(b for b in blocks if b["block"] == row.s // 4 + 7)
    at["prompt"] = "something else"
    path.write_text("".join(json.dumps(b) + "\n" for b in blocks))
    found = tools.found(structural_run(settings, row.run))
    assert found == {"plan": {row.clip}}
    at["actions"][0] ^= 1
    path.write_text("".join(json.dumps(b) + "\n" for b in blocks))
    assert row.clip in tools.found(structural_run(settings, row.run))["plan"]


def test_a_run_whose_source_is_gone_is_a_finding_not_an_exception(dataset_and_source, tools):
    settings = dataset_and_source
    run = list_runs(settings.src)[0]
    shutil.rmtree(settings.src / run)
    assert tools.found(structural_run(settings, run)).keys() == {"fingerprint"}


def test_temporaries_and_foreign_files_are_warnings(dataset, tools):
    row, short = tools.row_of(dataset), tools.row_of(dataset, ext=False)
    temporary = dataset.paths.cond(row.clip)
    temporary.with_name(f"{temporary.name}.tmp99999999.somewhere.12345").write_bytes(b"half")
    dataset.paths.cond(f"{row.clip}0").write_bytes(b"foreign")
    shutil.copy(dataset.paths.cond_ext(row.clip), dataset.paths.cond_ext(short.clip))
    results = [r for run in {row.run, short.run} for r in structural_run(dataset, run)]
    failed = [r for r in results if not r.passed]
    assert {r.name for r in failed} == {"temporaries", "foreign_files"} and all(r.severity == "warn" for r in failed)
    said = " ".join(w["what"] for r in failed for w in r.worst)
    assert f"{temporary.name}.tmp99999999" in said and f"{row.clip}0.npz" in said and f"cond_ext/{short.clip}" in said
