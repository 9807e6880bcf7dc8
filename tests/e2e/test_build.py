"""`gc25d build` with a damaged clip among good ones, again, and once it is mended."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gc25d_core.names import ClipId
from gc25d_core.synth import default_run_names, write_source
from tests.e2e.conftest import GC25D, Up, alive, clean_environment, settings_of, until

BAD, GOOD = default_run_names(2)


@dataclass(frozen=True)
class Recordings:
    """Two runs of two clips; in one of them a frame of the first clip has no ids image."""

    folder: Path
    bad_clip: str
    good_clips: frozenset[str]
    damaged_frame: int


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    root = tmp_path_factory.mktemp("source")
    plans = write_source(root, runs=2, clips=2, size=(96, 48), seed=0, workers=1)
    bad, *good = [ClipId(p.scene[0], p.run, c.start, p.scene[1]).name for p in plans for c in p.clips]
    frame = plans[0].clips[0].start + 5
    remove_member(root / BAD, f"{frame:06d}.ids.png")
    return Recordings(root, bad, frozenset(good), frame)


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
            for member, data in members:
                if member.name != name:
                    tar.addfile(member, io.BytesIO(data))
        return
    raise AssertionError(f"{name} is in no shard")


def mend(run: Path) -> None:
    (run / "whole.tar.bak").rename(run / (run / "whole.name").read_text())


Build = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Builder:
    """`gc25d build` of the recordings into one data set."""

    src: Path
    out: Path
    env: dict[str, str]

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [*GC25D, "build", *settings_of(self.src, self.out), *args]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def build(source: Recordings, tmp_path_factory: pytest.TempPathFactory) -> Builder:
    folder = tmp_path_factory.mktemp("build")
    return Builder(source.folder, folder / "ds", clean_environment(folder / "seats"))


def published(out: Path) -> dict[Path, int]:
    """mtime_ns of every file of a clip."""
    return {p: p.stat().st_mtime_ns for pattern in ("*/*.npz", "*/*.pt") for p in out.glob(pattern)}


def test_good_clips_are_built_the_damaged_one_is_named_and_mending_resumes(source: Recordings, build: Builder) -> None:
    frame, out = source.damaged_frame, build.out

    first = build()
    assert first.returncode == 1, first.stderr
    assert f"run {BAD}, clip {source.bad_clip}, frame {frame}, member {frame:06d}.ids.png" in first.stderr
    assert "READY     not written" in first.stdout
    assert {p.stem for p in (out / "latents").iterdir()} == source.good_clips
    rows = [json.loads(line) for line in (out / "index/clips.jsonl").read_text().splitlines()]
    assert {row["clip"] for row in rows} == source.good_clips

    before = published(out)
    mend(source.folder / BAD)
    second = build()
    assert second.returncode == 0, second.stdout + second.stderr
    assert "skipped 1 runs, finished" in second.stdout
    assert "launched 1 runs" in second.stdout
    assert (out / "latents" / f"{source.bad_clip}.pt").is_file()
    assert before.items() <= published(out).items()
    assert (out / "READY").is_file()

    third = build()
    assert third.returncode == 0, third.stderr
    assert "skipped 2 runs, finished" in third.stdout
    assert "launched" not in third.stdout
    assert "UI" not in third.stdout  # no server was started
    assert (out / "READY").is_file()


def test_an_unknown_run_is_named_and_nothing_is_built(build: Builder) -> None:
    done = build("--runs", f"{GOOD},R9_typo")
    assert done.returncode == 2
    assert "run R9_typo: the source has no such run" in done.stderr


def test_build_works_on_the_servers_of_a_running_up(
    start_up: Callable[[Path, Path], Up], source: Recordings, tmp_path: Path, environment: dict[str, str]
) -> None:
    out = tmp_path / "ds"
    up = start_up(source.folder, out)
    servers = {p.pid for p in up.family()}
    done = Builder(source.folder, out, environment)("--runs", GOOD)
    assert done.returncode == 0, done.stderr
    assert f"UI        {up.url}" in done.stdout
    assert up.process.poll() is None
    assert servers <= {p.pid for p in up.family() if p.is_running()}
    assert len(list((out / "latents").iterdir())) == 2


def test_ctrl_c_cancels_the_build_leaves_nothing_and_says_how_to_resume(
    source: Recordings, tmp_path: Path, environment: dict[str, str]
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        command = [*GC25D, "build", *settings_of(source.folder, tmp_path / "ds")]
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        until(lambda: "launched 2 runs" in log.read_text(), 120, "the launch")
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    assert not alive(family)
    assert "cancelling 2 runs" in log.read_text()
    assert "To resume: gc25d build" in log.read_text()
