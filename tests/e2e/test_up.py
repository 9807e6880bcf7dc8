"""`gc25d up` owns what it starts: nothing of it is left after SIGTERM or SIGKILL, whatever was running."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gc25d_core.synth.numbered import write_numbered_run
from tests.e2e.conftest import GC25D, Up, alive, settings_of, until

RUN = "R1_s7"
StartUp = Callable[[Path, Path], Up]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run whose latents keep a CPU busy for a while."""
    root = tmp_path_factory.mktemp("source")
    write_numbered_run(root, RUN, n_frames=244, clip_starts=[0, 32, 64, 96, 128], family="v10")
    return root


def wait_for_a_step(up: Up) -> str:
    """Launches the run and waits until one of its steps is a process; the Dagster run's id."""
    run_id = up.launch("build_runs", RUN)
    until(up.steps, 120, "a step")
    return run_id


def test_sigterm_cancels_the_runs_and_leaves_nothing(start_up: StartUp, source: Path, tmp_path: Path) -> None:
    up = start_up(source, tmp_path / "ds")
    wait_for_a_step(up)
    family = up.family()
    assert len(family) >= 6  # supervisor, three servers, run worker, step
    begun = time.monotonic()
    assert up.stop(signal.SIGTERM) == 143
    assert time.monotonic() - begun < 20
    assert not alive(family)
    printed = up.log.read_text()
    assert "cancelling 1 runs" in printed
    assert "To go on: gc25d up" in printed


def test_sigkill_takes_the_whole_tree_and_the_next_up_tidies(start_up: StartUp, source: Path, tmp_path: Path) -> None:
    up = start_up(source, tmp_path / "ds")
    run_id = wait_for_a_step(up)
    family = up.family()
    up.stop(signal.SIGKILL)
    time.sleep(2)
    assert not alive(family)
    again = start_up(source, tmp_path / "ds")
    assert again.status(run_id) == "FAILURE"
    assert "1 runs of an earlier process" in again.log.read_text()


def test_one_home_has_one_up(start_up: StartUp, source: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    up = start_up(source, tmp_path / "ds")
    second = subprocess.run(
        [*GC25D, "up", *settings_of(source, tmp_path / "ds"), "--port", "0"],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"`gc25d up` (process {up.process.pid}) already runs servers" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_server_that_dies_is_said_and_ends_the_rest(start_up: StartUp, source: Path, tmp_path: Path) -> None:
    up = start_up(source, tmp_path / "ds")
    family = up.family()
    daemon = next(p for p in family if "dagster._daemon" in p.cmdline())
    daemon.kill()
    assert up.process.wait(60) == 1
    assert not alive(family)
    assert "the daemon ended with exit code -9" in up.log.read_text()
