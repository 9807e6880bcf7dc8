"""`gc25d` as a user runs it: real processes, the GraphQL API over loopback, tiny synthetic recordings (96x48 to 64x32)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

REPOSITORY = Path(__file__).parents[2]
GC25D = [sys.executable, "-m", "gc25d_assets.cli.main"]
START_S, STOP_S = 180.0, 60.0


def clean_environment(seats: Path) -> dict[str, str]:
    """This shell's environment without gc25d and Dagster settings; one torch thread, so that steps do not fight."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GC25D_") and k != "DAGSTER_HOME"}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), kept.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "GC25D_SEATS_DIR": str(seats),
        "GC25D_CPU_THREADS": "1",
    }


def settings_of(src: Path, out: Path) -> list[str]:
    return ["--src", str(src), "--out", str(out), "--size", "64x32", "--device", "cpu", "--workers", "1"]


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true answer; fails after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.2)
    pytest.fail(f"{what}: not within {seconds:.0f} s")


def alive(processes: Sequence[psutil.Process]) -> list[str]:
    """Those that still run, in words; a zombie has ended."""
    left = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                left.append(f"{process.pid}: {' '.join(process.cmdline())[:120]}")
        except psutil.NoSuchProcess:
            continue
    return left


class Up:
    """A `gc25d up` of the test's own, and its GraphQL."""

    def __init__(self, src: Path, out: Path, log: Path, env: dict[str, str]) -> None:
        self.src, self.out, self.log = src, out, log
        with log.open("wb") as file:
            command = [*GC25D, "up", *settings_of(src, out), "--port", "0"]
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=env)
        self._seen: dict[int, psutil.Process] = {}
        self.url = ""

    def wait(self) -> Up:
        """Returns once the UI answers."""
        self.url = until(self._find_url, START_S, "gc25d up")
        return self

    def _find_url(self) -> str | None:
        if self.process.poll() is not None:
            pytest.fail(f"gc25d up ended with {self.process.returncode}:\n{self.log.read_text()}")
        found = re.search(r"UI +(http://127\.0\.0\.1:\d+)", self.log.read_text())
        return found.group(1) if found else None

    def family(self) -> list[psutil.Process]:
        """Every process under it, of now and of earlier calls."""
        try:
            top = psutil.Process(self.process.pid)
            for process in [top, *top.children(recursive=True)]:
                self._seen[process.pid] = process
        except psutil.NoSuchProcess:
            pass
        return list(self._seen.values())

    def steps(self) -> list[psutil.Process]:
        """Processes below the run workers: the steps."""
        top = psutil.Process(self.process.pid)
        servers = {p.pid for p in top.children()}
        workers = {p.pid for p in top.children(recursive=True) if p.ppid() in servers}
        spawned = [p for p in top.children(recursive=True) if p.ppid() in workers]
        return [p for p in spawned if "resource_tracker" not in " ".join(p.cmdline())]

    def query(self, text: str, **variables: Any) -> Any:
        """The one field of the answer."""
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=120) as reply:
            answer = json.load(reply)
        assert "errors" not in answer, answer["errors"]
        (value,) = answer["data"].values()
        return value

    def launch(self, job: str, partition: str, config: dict[str, Any] | None = None) -> str:
        """Launches one run of a job; its id."""
        params = {
            "selector": {"repositoryLocationName": "gc25d", "repositoryName": "__repository__", "pipelineName": job},
            "runConfigData": config or {},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": partition}]},
        }
        answer = self.query(
            """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) { __typename
            ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
            params=params,
        )
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def status(self, run_id: str) -> str:
        answer = self.query("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", id=run_id)
        return str(answer["status"])

    def wait_for_run(self, run_id: str, seconds: float) -> str:
        """The status in which it ended."""
        ends = ("SUCCESS", "FAILURE", "CANCELED")
        return str(until(lambda: (s := self.status(run_id)) in ends and s, seconds, f"run {run_id}"))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signals it and waits; its exit code."""
        self.family()
        self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def clean_up(self) -> None:
        """Ends whatever a failed test left, by process id."""
        family = self.family()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return clean_environment(tmp_path / "seats")


@pytest.fixture
def start_up(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[[Path, Path], Up]]:
    """Starts `gc25d up` for (source, data set); whatever was started is gone after the test."""
    started: list[Up] = []

    def start(src: Path, out: Path) -> Up:
        log = tmp_path / f"up-{len(started)}.log"
        started.append(Up(src, out, log, environment))
        return started[-1].wait()

    yield start
    for up in started:
        up.clean_up()
