"""A run that nobody works on any more does not stay "started" for ever, and one that somebody works on does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from gc25d_assets.automation.lost import lost_runs, lost_runs_sensor
from gc25d_assets.definitions import defs


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that launches runs as local processes, as `dagster dev` does."""
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        yield instance


def started(home: dg.DagsterInstance, pid: int | None, grpc: object) -> dg.DagsterRun:
    job = defs.resolve_job_def("build_index")
    run = home.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags={".dagster/grpc_info": json.dumps(grpc)}
    )
    if pid is not None:
        home.report_engine_event(f"Started process for run (pid: {pid}).", run)
    return run


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


GONE = {"host": "localhost", "socket": "/nowhere/code.sock"}


def test_worker_and_code_server_gone_is_lost(home: dg.DagsterInstance) -> None:
    run = started(home, dead_pid(), GONE)
    assert [r.run_id for r in lost_runs(home)] == [run.run_id]
    with dg.build_sensor_context(instance=home) as context:
        assert run.run_id[:8] in str(lost_runs_sensor.evaluate_tick(context).skip_message)
    after = home.get_run_by_id(run.run_id)
    assert after is not None and after.status == dg.DagsterRunStatus.FAILURE
    assert lost_runs(home) == []


def test_a_worker_that_survived_its_code_server_is_not(home: dg.DagsterInstance) -> None:
    started(home, os.getppid(), GONE)
    assert lost_runs(home) == []


def test_a_code_server_that_answers_looks_after_its_runs_itself(home: dg.DagsterInstance) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        started(home, dead_pid(), {"host": "localhost", "port": server.getsockname()[1]})
        assert lost_runs(home) == []


@pytest.mark.parametrize("grpc", [{}, {"host": "another-host", "port": 4000}])
def test_what_cannot_be_seen_from_here_is_left_alone(home: dg.DagsterInstance, grpc: object) -> None:
    started(home, dead_pid(), grpc)
    assert lost_runs(home) == []


def test_a_run_without_a_recorded_pid_is_left_alone(home: dg.DagsterInstance) -> None:
    started(home, None, GONE)
    assert lost_runs(home) == []


def test_a_number_given_to_a_later_process_counts_as_gone(
    home: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(home, os.getppid(), GONE)
    monkeypatch.setattr("gc25d_assets.automation.lost.CLOCK_SLACK_SECONDS", -1e9)
    assert len(lost_runs(home)) == 1
