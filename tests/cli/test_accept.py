"""Accepting a fault: the clip gets a row without outputs; what has no fault cannot be accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gc25d_assets.cli.main import gc25d
from gc25d_core.errors import SettingsError
from gc25d_core.plan import plan_run
from gc25d_core.rows import read_rows
from gc25d_core.settings import Settings
from gc25d_core.synth.numbered import write_numbered_run

RUN, CLIP = "R1_s7", "01_valley__R1_s7__000064"


@pytest.fixture
def planned(tmp_path: Path) -> list[str]:
    """Options of a planned run whose second clip lies beyond the recording."""
    write_numbered_run(tmp_path / "source", RUN, n_frames=112, clip_starts=[0, 64], family="v10")
    settings = Settings.resolve(src=tmp_path / "source", out=tmp_path / "ds", size=(64, 32))
    assert plan_run(settings, RUN).failed == {CLIP}
    return ["--src", str(tmp_path / "source"), "--out", str(tmp_path / "ds"), "--size", "64x32"]


def test_an_accepted_clip_has_a_row_that_says_so(planned: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(gc25d, ["accept", *planned, RUN, CLIP, "--reason", "the recording ends", "--who", "ada"])
    assert done.exit_code == 0, done.output
    assert "1 accepted, 0 clips with open faults" in done.output
    settings = Settings.resolve(src=tmp_path / "source", out=tmp_path / "ds", size=(64, 32))
    (row,) = [row for row in read_rows(settings.paths, RUN) if row.clip == CLIP]
    assert row.drop_reason == "source_error"


def test_a_clip_without_a_fault_is_refused_and_those_with_one_are_named(planned: list[str]) -> None:
    done = CliRunner().invoke(gc25d, ["accept", *planned, RUN, "01_valley__R1_s7__000000", "--reason", "x"])
    assert isinstance(done.exception, SettingsError)
    assert CLIP in str(done.exception)
