"""The audit tells what is missing, corrupt, stale and unrecorded apart, and moves only corrupt files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from gc25d_assets.cli.auditing import Deviation, audit_run, audit_runs, set_aside
from gc25d_core.outputs.files import read_cond
from gc25d_core.plan import plan_run
from gc25d_core.settings import Settings

RUN, CLIP = "R1_s7", "01_valley__R1_s7__000000"


def states(found: list[Deviation]) -> list[str]:
    return [deviation.state for deviation in found]


def test_a_built_run_has_nothing_to_say(built: Settings) -> None:
    assert audit_run(built, RUN) == []
    assert audit_runs(built, [RUN], {RUN}) == []


def test_what_dagster_does_not_know_is_unrecorded(built: Settings) -> None:
    assert states(audit_runs(built, [RUN], set())) == ["unrecorded"]


def test_a_deleted_file_is_missing(built: Settings) -> None:
    built.paths.cond_ext(CLIP).unlink()
    (found,) = audit_run(built, RUN)
    assert (found.state, found.path) == ("missing", built.paths.cond_ext(CLIP))


def test_a_cut_file_is_corrupt(built: Settings) -> None:
    path = built.paths.latents(CLIP)
    path.write_bytes(path.read_bytes()[:-100])
    assert states(audit_run(built, RUN)) == ["corrupt"]


def test_other_content_under_the_right_fingerprint_is_corrupt(built: Settings) -> None:
    path = built.paths.cond(CLIP)
    with np.load(path) as arrays:
        members = dict(arrays)
    members["parts"][0, 0, 0] ^= 1
    np.savez(path, **members)
    read_cond(path)  # it opens: only the row knows better
    assert states(audit_run(built, RUN)) == ["corrupt"]


def test_files_of_other_settings_are_stale(built: Settings) -> None:
    found = audit_run(replace(built, size=(32, 16)), RUN)
    assert states(found) == ["stale"] * 4


def test_a_changed_source_makes_the_plan_stale(built: Settings) -> None:
    blocks = built.src / RUN / "blocks.jsonl"
    first, rest = blocks.read_text().split("\n", 1)
    blocks.write_text(first.replace('"prompt": "', '"prompt": "Now ') + "\n" + rest)
    (found,) = audit_run(built, RUN)
    assert (found.state, found.path) == ("stale", built.paths.plan(RUN))


def test_a_run_without_a_plan_is_missing(built: Settings) -> None:
    built.paths.plan(RUN).unlink()
    assert states(audit_run(built, RUN)) == ["missing"]


def test_a_fault_that_nobody_accepted_is_listed(built: Settings) -> None:
    run_json = built.src / RUN / "run.json"
    run_json.write_text(json.dumps(json.loads(run_json.read_text()) | {"clip_starts": [0, 64]}))
    assert plan_run(built, RUN).failed == {"01_valley__R1_s7__000064"}
    assert "fault" in states(audit_run(built, RUN))


def test_only_corrupt_files_are_set_aside(built: Settings) -> None:
    bad, gone = built.paths.cond(CLIP), built.paths.meta(CLIP)
    bad.write_bytes(b"rot")
    gone.unlink()
    found = audit_run(built, RUN)
    assert sorted(states(found)) == ["corrupt", "missing"]
    folder = set_aside(built, found)
    assert folder is not None
    assert not bad.exists()
    assert (folder / "cond" / bad.name).read_bytes() == b"rot"
    assert set_aside(built, audit_run(built, RUN)) is None
