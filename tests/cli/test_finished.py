"""A run is finished when a build would make nothing: decided by what lies on disk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gc25d_assets.cli.finished import finished_runs, is_finished_run
from gc25d_core.errors import Fault
from gc25d_core.faults import accept_fault
from gc25d_core.outputs.ready import building
from gc25d_core.prepare.faults import write_faults
from gc25d_core.rows import index_run
from gc25d_core.settings import Settings

RUN, CLIP = "R1_s7", "01_valley__R1_s7__000000"


def test_a_built_run_is_finished(built: Settings) -> None:
    assert finished_runs(built, [RUN, "R9_unknown"]) == [RUN]


@pytest.mark.parametrize("kind", ["latents", "cond", "cond_ext", "meta"])
def test_without_one_of_its_files_it_is_not(built: Settings, kind: str) -> None:
    built.paths.clip(kind, CLIP).unlink()
    assert not is_finished_run(built, RUN)


def test_a_cut_file_is_not_trusted(built: Settings) -> None:
    path = built.paths.cond(CLIP)
    path.write_bytes(path.read_bytes()[:200])
    assert not is_finished_run(built, RUN)


def test_without_its_rows_it_is_not(built: Settings) -> None:
    built.paths.rows(RUN).unlink()
    assert not is_finished_run(built, RUN)


def test_other_settings_ask_for_other_files(built: Settings) -> None:
    assert not is_finished_run(replace(built, size=(32, 16)), RUN)


def test_a_changed_prompt_in_the_source_unfinishes_it(built: Settings) -> None:
    blocks = built.src / RUN / "blocks.jsonl"
    first, rest = blocks.read_text().split("\n", 1)
    blocks.write_text(first.replace('"prompt": "', '"prompt": "Now ') + "\n" + rest)
    assert not is_finished_run(built, RUN)


def test_an_open_fault_is_unfinished_work_and_an_accepted_one_is_not(built: Settings) -> None:
    fault = Fault("bad_ids", "the ids are wrong", RUN, CLIP)
    with building(built) as build:
        write_faults(built, RUN, "conditions", [fault], build)
    assert not is_finished_run(built, RUN)
    accept_fault(built, RUN, CLIP, reason="known", who="ada")
    index_run(built, RUN)
    assert is_finished_run(built, RUN)
