"""`gc25d build` with a damaged clip among good ones, again, and once it is mended."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gc25d_core.synth.numbered import write_numbered_run
from tests.e2e.conftest import GC25D, Up, clean_environment, settings_of

GOOD, BAD = "P2_golden_s8", "R1_s7"
BAD_CLIP, GOOD_CLIP_OF_BAD = f"01_valley__{BAD}__000000", f"01_valley__{BAD}__000112"
DAMAGED_FRAME = 5


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; in one of them a frame of the first of two clips has no ids image."""
    root = tmp_path_factory.mktemp("source")
    write_numbered_run(root, GOOD, n_frames=112, clip_starts=[0], family="v9")
    write_numbered_run(root, BAD, n_frames=224, clip_starts=[0, 112], family="v10")
    remove_member(root / BAD, f"{DAMAGED_FRAME:06d}.ids.png")
    return root


def remove_member(run: Path, name: str) -> None:
    """Takes one member out of whichever shard holds it; the rest stays byte for byte."""
    for shard in sorted(run.glob("shard-*.tar")):
        with tarfile.open(shard) as tar:
            members = [(m, tar.extractfile(m).read()) for m in tar]  # type: ignore[union-attr]
        if all(m.name != name for m, _ in members):
            continue
        shutil.copy(shard, run / "whole.tar.bak")
        (run / "whole.name").write_text(shard.name)
        with tarfile.open(shard, "w") as tar:
            import io

            for member, data in members:
                if member.name != name:
                    tar.addfile(member, io.BytesIO(data))
        return
    raise AssertionError(f"{name} is in no shard")


def mend(run: Path) -> None:
    (run / "whole.tar.bak").rename(run / (run / "whole.name").read_text())


Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def build(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """`gc25d build` of the source into one data set, `build.out`."""
    folder = tmp_path_factory.mktemp("build")
    env = clean_environment(folder / "seats")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [*GC25D, "build", *settings_of(source, folder / "ds"), *args]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)

    run.out = folder / "ds"  # type: ignore[attr-defined]
    return run


def test_good_clips_are_built_the_damaged_one_is_named_and_mending_resumes(source: Path, build: Build) -> None:
    out: Path = build.out  # type: ignore[attr-defined]

    first = build()
    assert first.returncode == 1, first.stderr
    assert f"run {BAD}, clip {BAD_CLIP}, frame {DAMAGED_FRAME}, member {DAMAGED_FRAME:06d}.ids.png" in first.stderr
    assert "READY     not written" in first.stdout
    assert (out / "latents" / f"{GOOD_CLIP_OF_BAD}.pt").is_file()
    assert not (out / "latents" / f"{BAD_CLIP}.pt").exists()
    rows = [json.loads(line) for line in (out / "index/clips.jsonl").read_text().splitlines()]
    assert {row["clip"] for row in rows} == {f"01_valley__{GOOD}__000000", GOOD_CLIP_OF_BAD}

    before = {p: p.stat().st_mtime_ns for p in out.glob("*/*.npz")} | {
        p: p.stat().st_mtime_ns for p in out.glob("*/*.pt")
    }
    mend(source / BAD)
    second = build()
    assert second.returncode == 0, second.stdout + second.stderr
    assert "skipped 1 runs, finished" in second.stdout
    assert "launched 1 runs" in second.stdout
    assert (out / "latents" / f"{BAD_CLIP}.pt").is_file()
    assert {p: p.stat().st_mtime_ns for p in before} == before

    begun = time.monotonic()
    third = build()
    assert third.returncode == 0, third.stderr
    assert "skipped 2 runs, finished" in third.stdout
    assert "launched" not in third.stdout
    assert "UI" not in third.stdout  # no server was started
    assert time.monotonic() - begun < 60


def test_an_unknown_run_is_named_and_nothing_is_built(build: Build) -> None:
    done = build("--runs", f"{GOOD},R9_typo")
    assert done.returncode == 2
    assert "run R9_typo: the source has no such run" in done.stderr


def test_build_works_on_the_servers_of_a_running_up(
    start_up: Callable[[Path, Path], Up], source: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    up = start_up(source, tmp_path / "ds")
    servers = {p.pid for p in up.family()}
    command = [*GC25D, "build", *settings_of(source, tmp_path / "ds"), "--runs", GOOD]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert f"UI        {up.url}" in done.stdout
    assert up.process.poll() is None
    assert servers <= {p.pid for p in up.family() if p.is_running()}
    assert (tmp_path / "ds/latents" / f"01_valley__{GOOD}__000000.pt").is_file()
