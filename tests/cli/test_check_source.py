"""A source is checked before anything is built: every deviation, also of pictures, with a fix, and nothing is written."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from gc25d_assets.cli.check_source import spread
from gc25d_assets.cli.main import gc25d
from gc25d_core.errors import SettingsError

RUN = "R1_s7"
SIZE = ["--size", "64x32", "--workers", "1"]


@pytest.fixture
def recordings(source: Path, tmp_path: Path) -> Path:
    """A copy of the good source."""
    return Path(shutil.copytree(source, tmp_path / "recordings"))


def replace_member(run: Path, name: str, data: bytes) -> None:
    """Writes other bytes under a member's name."""
    for shard in run.glob("shard-*.tar"):
        with tarfile.open(shard) as tar:
            members = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
        if name in members:
            members[name] = data
            with tarfile.open(shard, "w") as tar:
                for member, content in members.items():
                    info = tarfile.TarInfo(member)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))


def test_a_good_source_has_no_deviation_and_is_not_written_to(recordings: Path) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in recordings.rglob("*"))
    done = CliRunner().invoke(gc25d, ["check-source", str(recordings), *SIZE])
    assert done.exit_code == 0, done.output
    assert "1 runs, pictures of 1 clips: 0 deviations" in done.output
    assert sorted((p, p.stat().st_mtime_ns) for p in recordings.rglob("*")) == before


@pytest.mark.parametrize(("name", "kind"), [("000003.jpg", "bad_jpeg"), ("000004.ids.png", "bad_png")])
def test_a_picture_that_cannot_be_decoded_is_named_with_a_fix(recordings: Path, name: str, kind: str) -> None:
    replace_member(recordings / RUN, name, b"not a picture")
    done = CliRunner().invoke(gc25d, ["check-source", str(recordings), *SIZE])
    assert done.exit_code == 1
    assert kind in done.output
    assert f"member {name}" in done.output
    assert "to do:" in done.output
    quick = CliRunner().invoke(gc25d, ["check-source", str(recordings), *SIZE, "--clips-per-run", "0"])
    assert quick.exit_code == 0  # pictures are what the quick scan leaves out


def test_a_broken_run_json_is_a_deviation_of_its_run(recordings: Path) -> None:
    run_json = recordings / RUN / "run.json"
    run_json.write_text(json.dumps(json.loads(run_json.read_text()) | {"fps": "fast"}))
    done = CliRunner().invoke(gc25d, ["check-source", str(recordings), *SIZE])
    assert done.exit_code == 1
    assert "run_json_invalid" in done.output


def test_an_unknown_run_is_a_mistake_of_the_caller(recordings: Path) -> None:
    done = CliRunner().invoke(gc25d, ["check-source", str(recordings), *SIZE, "--runs", "R9_typo"])
    assert isinstance(done.exception, SettingsError)


def test_some_clips_are_spread_over_the_run() -> None:
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread(range(2), 5) == [0, 1]
    assert spread(range(2), None) == [0, 1]
    assert spread(range(2), 0) == []
