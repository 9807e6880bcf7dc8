"""`verify`: the report, READY and what keeps it away."""

import json
import shutil

import pytest

from gc25d_core.errors import Fault
from gc25d_core.faults import accept_fault
from gc25d_core.index import build_index, index_is_stale
from gc25d_core.outputs.content import bytes_hash
from gc25d_core.outputs.ready import building
from gc25d_core.pool import build_pool
from gc25d_core.prepare.faults import write_faults
from gc25d_core.rows import index_run
from gc25d_core.source import list_runs
from gc25d_core.verify import CheckResult, verify
from gc25d_core.verify import report as report_module
from gc25d_core.verify.results import Findings, merge

NOT_READY = "not_ready_because"


@pytest.fixture(autouse=True)
def quick(easy_psnr, monkeypatch):
    """No decode and one encode: the VAE checks have tests of their own."""
    monkeypatch.setattr("gc25d_core.verify.report.spot_vae", lambda s, rows: passing_vae(rows))


def passing_vae(rows) -> list[CheckResult]:
    found = Findings("spot_reencode", "", clips=len(rows), figure={"rule": {r.clip: "equal bits" for r in rows}})
    return [found.result(applicable=bool(rows))]


def test_a_good_data_set_becomes_ready_with_the_hash_of_its_index(dataset, tools):
    report = verify(dataset)
    assert report.passed and report.ready and report.not_ready_because == () and not report.warnings
    ready = json.loads(dataset.paths.ready.read_text())
    assert ready["clips_hash"] == bytes_hash(dataset.paths.clips_jsonl.read_bytes()) == report.clips_hash
    assert (ready["runs"], ready["clips"]) == ("4 of 4", 8)
    written = json.loads(dataset.paths.verify_report.read_text())
    assert (written["failures"], written["warnings"], written["ready"], written["runs"]) == (0, 0, True, "4 of 4")
    assert len(written["checks"]) == len({c["name"] for c in written["checks"]}) > 20
    assert len(written["spot_clips"]) == 4 and written["vae_clips"] == written["spot_clips"][:1]
    assert written["vae_rule"] == {written["vae_clips"][0]: "equal bits"}
    counts = next(c for c in report.checks if c.name == "counts").figure
    assert counts["clips"] == {"v10": 4, "v9": 4, "all": 8} and counts["player_px_a_frame"] > 0


def test_a_real_verification_with_the_vae_passes(dataset, monkeypatch):
    from gc25d_core.verify.spot_vae import spot_vae

    monkeypatch.setattr("gc25d_core.verify.report.spot_vae", spot_vae)
    report = verify(dataset)
    assert report.ready and "equal bits" in report.vae_rule[report.vae_clips[0]]


def test_without_write_nothing_changes_on_disk(dataset):
    before = sorted(p for p in dataset.out.iterdir() if not p.name.startswith("."))
    report = verify(dataset, write=False)
    assert report.passed and not report.ready
    assert sorted(p for p in dataset.out.iterdir() if not p.name.startswith(".")) == before


def test_a_failure_removes_ready_and_names_the_clip(dataset, tools, flip_bit):
    assert verify(dataset).ready
    row = tools.row_of(dataset)
    path = dataset.paths.cond_ext(row.clip)
    flip_bit(path, path.stat().st_size // 2)
    report = verify(dataset)
    assert not report.passed and not report.ready and not dataset.paths.ready.exists()
    assert tools.found(report.checks)["files"] == {row.clip}
    assert report.not_ready_because[0].startswith("files")
    assert json.loads(dataset.paths.verify_report.read_text())["failures"] == len(report.failures) >= 1


def test_processes_say_what_one_process_says(dataset, tools, flip_bit):
    row = tools.row_of(dataset)
    flip_bit(dataset.paths.meta(row.clip), 2000)
    (alone, many) = (verify(dataset, workers=n, write=False) for n in (1, 2))
    assert [c.to_json() for c in alone.checks] == [c.to_json() for c in many.checks]
    assert not many.passed


def test_some_of_the_runs_pass_but_are_not_ready(dataset):
    run = list_runs(dataset.src)[0]
    for path in (dataset.paths.rows(run), dataset.paths.plan(run)):
        path.unlink()
    for kind in ("latents", "cond", "cond_ext", "meta"):
        for path in (dataset.out / kind).glob(f"*__{run}__*"):
            path.unlink()
    build_index(dataset)
    report = verify(dataset)
    assert report.passed and not report.ready and (report.runs_complete, report.runs_total) == (3, 4)
    assert [c.name for c in report.warnings] == ["runs_complete"]


def test_a_vanished_run_is_said_and_keeps_ready_away(dataset_and_source, tools):
    settings = dataset_and_source
    run = list_runs(settings.src)[0]
    shutil.rmtree(settings.src / run)
    index = build_index(settings)
    assert index.vanished == [run] and index.clips == 8
    report = verify(settings)
    assert not report.ready and "runs_complete" in [c.name for c in report.warnings]
    assert run in json.dumps(report.to_json()["not_ready_because"])


def test_a_fault_keeps_ready_away_until_it_is_accepted(dataset, tools):
    row = tools.row_of(dataset)
    with building(dataset) as build:
        write_faults(
            dataset, row.run, "conditions", [Fault("bad_ids", "ids 12", row.run, clip=row.clip, frame=row.s)], build
        )
    index_run(dataset, row.run)
    assert build_index(dataset).faults_open == 1
    report = verify(dataset)
    assert report.passed and not report.ready and [c.name for c in report.warnings] == ["faults_accepted"]
    accept_fault(dataset, row.run, row.clip, reason="the recording is lost", who="a test")
    assert index_is_stale(dataset)
    index_run(dataset, row.run)
    assert build_index(dataset).faults_open == 0
    report = verify(dataset)
    assert report.ready and report.clips == 8


def test_a_row_changed_after_the_index_is_found(dataset, tools):
    row = tools.row_of(dataset)
    tools.rewrite_row(dataset, row, camera_variant="other")
    found = tools.found(verify(dataset).checks)
    assert found["rows"] == found["index_rows"] == {row.clip} and "index_current" in found


@pytest.mark.parametrize("name", ["clips_jsonl", "clips_parquet", "runs_json", "faults_jsonl"])
def test_a_flipped_bit_anywhere_in_an_index_file_is_a_failure(dataset, flip_bit, name):
    with building(dataset) as build:  # so that faults.jsonl holds something
        write_faults(dataset, "R10_s1501", "latents", [Fault("shard_cut", "cut", "R10_s1501")], build)
    accept_fault(dataset, "R10_s1501", "*", reason="a test", who="a test")
    build_index(dataset)
    assert verify(dataset, spot=0, write=False).passed
    path = getattr(dataset.paths, name)
    whole = path.read_bytes()
    for position in range(1, len(whole), len(whole) // 9):
        flip_bit(path, position)
        assert not verify(dataset, spot=0, write=False).passed, f"byte {position} of {len(whole)}"
        path.write_bytes(whole)


def test_lines_of_the_index_lost_doubled_or_out_of_order_are_found(dataset, tools):
    path = dataset.paths.clips_jsonl
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in (lines[1:], [*lines, lines[0]], [lines[1], lines[0], *lines[2:]]):
        path.write_bytes(b"".join(wrong))
        assert "index_rows" in tools.found(verify(dataset, spot=0, write=False).checks)


def test_a_missing_index_is_a_failure(dataset, tools):
    dataset.paths.clips_jsonl.unlink()
    report = verify(dataset)
    assert not report.passed and not report.ready and "index_rows" in tools.found(report.checks)


def test_a_pool_that_lacks_or_invents_a_clip_is_found_and_an_old_one_is_a_warning(dataset, tools):
    build_pool(dataset, "all", who="a test")
    assert verify(dataset, spot=0, write=False).passed
    path = dataset.paths.dmd_pool
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in (lines[1:], lines[::-1], [lines[0].replace(b'"has_ext":true', b'"has_ext":false'), *lines[1:]]):
        path.write_bytes(b"".join(wrong))
        assert "pool" in tools.found(verify(dataset, spot=0, write=False).failures)
    path.write_bytes(b"".join(lines).replace(b'"index_hash":"', b'"index_hash":"0'))
    assert [c.name for c in verify(dataset, spot=0, write=False).warnings] == ["pool"]


def test_a_write_during_the_verification_withholds_ready(dataset, tools, monkeypatch):
    row = tools.row_of(dataset)

    def rewrite_meanwhile(settings, rows):
        path = settings.paths.cond(row.clip)
        path.write_bytes(path.read_bytes())
        return passing_vae(rows)

    monkeypatch.setattr(report_module, "spot_vae", rewrite_meanwhile)
    report = verify(dataset)
    assert report.passed and not report.ready and "verify again" in report.not_ready_because[0]


def test_a_builder_at_work_withholds_ready(dataset):
    with building(dataset):
        report = verify(dataset)
    assert report.passed and not report.ready and "build" in report.not_ready_because[0]
    assert verify(dataset).ready


def test_a_verification_without_spot_or_vae_checks_is_never_ready(dataset):
    assert not verify(dataset, spot=0).ready
    assert not verify(dataset, spot_vae_clips=0).ready


def test_leftovers_anywhere_are_warnings_and_do_not_keep_ready_away(dataset, tools):
    (dataset.paths.index / "clips.jsonl.tmp99999999.host.1").write_bytes(b"x")
    (dataset.out / "latents" / "09_nowhere__R10_x__000000.pt").write_bytes(b"x")
    report = verify(dataset)
    assert report.ready and {c.name for c in report.warnings} == {"temporaries", "foreign_files"}


def test_progress_counts_every_run(dataset):
    said = []
    verify(dataset, spot=1, write=False, progress=lambda *x: said.append(x))
    assert ("runs", 4, 4) in said and ("spot checks", 2, 2) in said and ("VAE", 1, 1) in said


def test_merged_results_add_up():
    a, b = (
        Findings("x", "t", clips=2, figure={"n": 1, "share_min": 0.9}),
        Findings("x", "t", clips=3, figure={"n": 2, "share_min": 0.8}),
    )
    b.add("wrong", run="r", clip="c", frame=7)
    [both] = merge([a.result(), b.result()])
    assert (both.passed, both.clips_checked, both.findings) == (False, 5, 1)
    assert both.figure == {"n": 3, "share_min": 0.8} and both.worst == [
        {"run": "r", "clip": "c", "frame": 7, "what": "wrong"}
    ]
    [fine] = merge([a.result(), Findings("x", "t").result(applicable=False)])
    assert fine.passed and fine.applicable and fine.figure == {"n": 1, "share_min": 0.9}
