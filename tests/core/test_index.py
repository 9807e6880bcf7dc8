"""The index: complete runs only, in order, the same as json lines and as parquet; stale exactly when the disk differs."""

import json
import shutil

import msgspec
import pyarrow.parquet as pq
import pytest

from gc25d_core.errors import Fault, OutputError
from gc25d_core.faults import accept_fault
from gc25d_core.index import build_index, derived_is_current, index_is_stale, index_state_hash, read_index, rows_state
from gc25d_core.index_parquet import SCHEMA
from gc25d_core.look_change import look_change
from gc25d_core.outputs.content import bytes_hash
from gc25d_core.outputs.ready import building
from gc25d_core.pool import build_pool
from gc25d_core.prep_stats import write_prep_stats
from gc25d_core.prepare.faults import write_faults
from gc25d_core.rows import encode_rows, index_run, read_rows
from gc25d_core.source import list_runs


def index_files(settings):
    p = settings.paths
    return {x.name: x.read_bytes() for x in (p.clips_jsonl, p.clips_parquet, p.faults_jsonl, p.runs_json)}


def test_the_index_holds_every_row_in_clip_order(dataset):
    rows, clips_hash = read_index(dataset)
    assert len(rows) == 8 and [r.order for r in rows] == sorted(r.order for r in rows)
    assert {r.clip for r in rows} == {r.clip for run in list_runs(dataset.src) for r in read_rows(dataset.paths, run)}
    assert clips_hash == bytes_hash(dataset.paths.clips_jsonl.read_bytes())
    assert rows[0].scene < rows[-1].scene  # the first run's scene sorts last


def test_building_again_changes_no_byte_and_keeps_ready(dataset):
    dataset.paths.ready.write_text("{}")
    before = index_files(dataset)
    report = build_index(dataset)
    assert not report.written and index_files(dataset) == before and dataset.paths.ready.exists()
    assert report.summary() == "8 clips of 4 of 4 runs, 0 open faults"


@pytest.mark.parametrize("name", ["clips_jsonl", "clips_parquet", "faults_jsonl", "runs_json"])
def test_a_damaged_or_lost_index_file_is_made_again_with_the_same_bytes(dataset, name):
    dataset.paths.ready.write_text("{}")
    before = index_files(dataset)
    path = getattr(dataset.paths, name)
    path.write_bytes(path.read_bytes()[:-5] + b"x")
    assert build_index(dataset).written and index_files(dataset) == before
    assert not dataset.paths.ready.exists()
    path.unlink()
    assert build_index(dataset).written and index_files(dataset) == before


def test_parquet_has_nested_types_and_the_same_rows(dataset):
    table = pq.read_table(dataset.paths.clips_parquet)
    assert table.schema.remove_metadata() == SCHEMA
    assert not pq.read_schema(dataset.paths.clips_parquet).field("clip").nullable
    lines = [json.loads(line) for line in dataset.paths.clips_jsonl.read_bytes().splitlines()]
    for record, line in zip(table.to_pylist(), lines, strict=True):
        assert [[p["block"], p["text"]] for p in record.pop("prompts")] == line.pop("prompts")
        assert {k: v for k, v in record.pop("outputs").items() if v is not None} == line.pop("outputs")
        assert record == line
    assert table.schema.field("outputs").type.field("latents").type.field("bytes").type == "int64"


def test_an_index_of_no_rows_is_still_readable(dataset):
    shutil.rmtree(dataset.paths.index / "rows")
    report = build_index(dataset)
    assert (report.clips, report.runs_complete, report.runs_total) == (0, 0, 4)
    assert set(report.incomplete.values()) == {"no rows yet"}
    assert read_index(dataset)[0] == [] and pq.read_table(dataset.paths.clips_parquet).num_rows == 0


def test_a_run_with_a_missing_clip_is_left_out_and_said(dataset):
    row = read_index(dataset)[0][0]
    dataset.paths.cond(row.clip).unlink()
    index_run(dataset, row.run)
    report = build_index(dataset)
    assert (report.clips, report.runs_complete, report.runs_total) == (6, 3, 4)
    assert row.clip in report.incomplete[row.run] and report.runs[row.run].missing == 1
    assert all(r.run != row.run for r in read_index(dataset)[0])


def test_rows_older_than_the_plan_do_not_enter_the_index(dataset):
    row = read_index(dataset)[0][0]
    old = [
        msgspec.structs.replace(r, look="x/y") if r.clip == row.clip else r for r in read_rows(dataset.paths, row.run)
    ]
    dataset.paths.rows(row.run).write_bytes(encode_rows(old))
    report = build_index(dataset)
    assert report.clips == 6 and "older than the plan (look" in report.incomplete[row.run]


def test_a_run_without_plan_or_with_torn_rows_is_incomplete_not_an_exception(dataset):
    first, second, *_ = list_runs(dataset.src)
    dataset.paths.plan(first).unlink()
    path = dataset.paths.rows(second)
    path.write_bytes(path.read_bytes()[:-30])
    report = build_index(dataset)
    assert report.incomplete.keys() == {first, second} and report.clips == 4
    assert "line 2" in report.incomplete[second]


def test_a_fault_completes_its_run_and_is_listed_until_the_source_is_mended(dataset):
    row = read_index(dataset)[0][0]
    fault = Fault(
        "bad_ids", "ids 12", row.run, clip=row.clip, frame=row.s, member="000000.ids.png", shard="s", offset=512
    )
    with building(dataset) as build:
        write_faults(dataset, row.run, "conditions", [fault], build)
    index_run(dataset, row.run)
    report = build_index(dataset)
    assert (report.clips, report.runs_complete, report.faults, report.faults_open) == (7, 4, 1, 1)
    listed = [json.loads(line) for line in dataset.paths.faults_jsonl.read_bytes().splitlines()]
    assert listed == [{**fault.to_json(), "accepted": None}]
    accept_fault(dataset, row.run, row.clip, reason="known", who="a test")
    index_run(dataset, row.run)
    report = build_index(dataset)
    assert (report.clips, report.faults, report.faults_open, report.runs[row.run].accepted) == (8, 1, 0, 1)
    assert json.loads(dataset.paths.faults_jsonl.read_bytes())["accepted"] == "known"
    record = pq.read_table(dataset.paths.clips_parquet).to_pylist()[0]
    assert record["drop_reason"] == "source_error" and record["player_px_mean"] is None
    assert record["outputs"] == dict.fromkeys(record["outputs"])
    with building(dataset) as build:
        write_faults(dataset, row.run, "conditions", [], build)
    index_run(dataset, row.run)
    assert build_index(dataset).faults == 0 and read_index(dataset)[0][0] == row


def test_a_folder_that_is_no_usable_run_is_a_fault_of_the_index(dataset_and_source):
    settings = dataset_and_source
    (settings.src / "R10_broken").mkdir()
    (settings.src / "R10_broken" / "run.json").write_text("{")
    assert index_is_stale(settings)
    report = build_index(settings)
    assert report.faults_open >= 1 and (report.runs_complete, report.runs_total) == (4, 5)


def test_a_vanished_run_is_kept_and_said(dataset_and_source):
    settings = dataset_and_source
    run = list_runs(settings.src)[0]
    shutil.rmtree(settings.src / run)
    assert index_is_stale(settings)
    report = build_index(settings)
    assert report.vanished == [run] and report.clips == 8 and "vanished" in report.summary()
    assert json.loads(settings.paths.runs_json.read_text())["vanished"] == [run]
    assert not index_is_stale(settings)


def test_the_index_is_stale_exactly_when_something_it_is_built_from_changes(dataset):
    row = read_index(dataset)[0][0]
    assert not index_is_stale(dataset)
    state = index_state_hash(dataset)
    for path in (dataset.paths.rows(row.run), dataset.paths.plan(row.run)):
        whole = path.read_bytes()
        path.write_bytes(whole + b"\n")
        assert index_is_stale(dataset) and rows_state(dataset).keys() == set(list_runs(dataset.src))
        path.write_bytes(whole)
        assert not index_is_stale(dataset)
    with building(dataset) as build:
        write_faults(dataset, row.run, "latents", [Fault("x", "y", row.run, clip=row.clip)], build)
    assert index_is_stale(dataset) and index_state_hash(dataset) != state
    build_index(dataset)
    accept_fault(dataset, row.run, row.clip, reason="known", who="a test")
    assert index_is_stale(dataset)
    build_index(dataset)
    assert not index_is_stale(dataset)
    dataset.paths.clips_jsonl.unlink()
    assert index_is_stale(dataset)


def test_without_any_index_it_is_stale_and_cannot_be_read(settings_for):
    settings = settings_for()
    assert index_is_stale(settings)
    with pytest.raises(OutputError, match="clips_index"):
        read_index(settings)
    settings.paths.runs_json.parent.mkdir(parents=True, exist_ok=True)
    settings.paths.runs_json.write_text("{broken")
    assert index_is_stale(settings)


def test_totals_of_the_runs_add_up(dataset):
    runs = json.loads(dataset.paths.runs_json.read_text())
    rows, _ = read_index(dataset)
    assert runs["clips"] == sum(r["rows"] for r in runs["runs"].values()) == len(rows)
    assert {run: r["has_ext"] for run, r in runs["runs"].items()} == {
        run: sum(x.has_ext for x in rows if x.run == run) for run in runs["runs"]
    }
    assert {r["family"] for r in runs["runs"].values()} == {"v10", "v9"}
    assert (runs["runs_complete"], runs["runs_total"], runs["incomplete"], runs["vanished"]) == (4, 4, {}, [])


def test_an_extension_that_the_old_rule_would_have_given_is_counted(dataset):
    """Block s//4+23 is missing and s//4+26 is there: the replaced process said yes."""
    run = list_runs(dataset.src)[0]
    path = dataset.paths.plan(run)
    head, *clips = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head.replace(b'"ext_rule_differs":0', b'"ext_rule_differs":1') + b"".join(clips))
    assert build_index(dataset).runs[run].has_ext_rule_differs == 1
    assert json.loads(dataset.paths.runs_json.read_text())["has_ext_rule_differs"] == 1


def test_prep_stats_cover_what_was_published_in_the_span(dataset):
    stats = json.loads(write_prep_stats(dataset).read_text())
    rows, _ = read_index(dataset)
    assert stats["clips"] == 8 and stats["kinds"]["cond_ext"]["files"] == sum(r.has_ext for r in rows)
    assert stats["kinds"]["latents"]["bytes"] == sum(r.outputs["latents"].bytes for r in rows)
    assert stats["kinds"]["latents"]["clips_per_second"] > 0
    assert json.loads(write_prep_stats(dataset, since=4e9).read_text())["clips"] == 0


@pytest.mark.parametrize("name", ["clips_jsonl", "clips_parquet", "faults_jsonl", "runs_json"])
@pytest.mark.parametrize("how", ["cut", "deleted"])
def test_a_lost_or_damaged_index_file_makes_the_index_stale(dataset, name, how):
    build_index(dataset)
    assert not index_is_stale(dataset)
    path = getattr(dataset.paths, name)
    if how == "deleted":
        path.unlink()
    elif name == "faults_jsonl":
        return  # empty here: there is nothing to cut
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert index_is_stale(dataset)
    build_index(dataset)
    assert not index_is_stale(dataset)


def test_a_lost_or_damaged_pool_or_report_is_noticed(dataset):
    clips_hash = build_index(dataset).clips_hash
    look_change(dataset)
    build_pool(dataset)
    assert derived_is_current(dataset, clips_hash) and not derived_is_current(dataset, "another index")
    for path in (dataset.paths.look_change, dataset.paths.dmd_pool):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        assert not derived_is_current(dataset, clips_hash)
        path.unlink()
        assert not derived_is_current(dataset, clips_hash)
        path.write_bytes(whole)
    assert derived_is_current(dataset, clips_hash)
