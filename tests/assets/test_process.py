"""Nothing outlives the process it works for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
GRANDCHILD = """
import os, sys, time
from gc25d_assets.process import {call}
{call}()
print(os.getpid(), flush=True)
time.sleep(60)
"""
CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(60)
"""
LATE = """
import os, time
from gc25d_assets.process import die_with_parent
print(os.getpid(), flush=True)
die_with_parent(1 if os.getppid() != 1 else 2)
print("still here", flush=True)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    return until(lambda: not alive(pid), seconds)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def killed_parent_takes(call: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, GRANDCHILD.format(call=call)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    assert alive(pid)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert gone_within(pid, 2.0)


def test_the_kernel_kills_a_child_that_tied_itself_to_its_parent() -> None:
    killed_parent_takes("die_with_parent")


def test_a_watching_thread_does_the_same() -> None:
    killed_parent_takes("watch_parent")


def test_a_parent_that_is_gone_before_the_call_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    assert "still here" not in done.stdout


def test_a_watched_process_survives_the_end_of_the_thread_that_started_it() -> None:
    """Why code servers and run workers are watched by process: their starter is a request handler's thread."""
    code = f"""
import subprocess, sys, threading, time
def start():
    global child
    child = subprocess.Popen([sys.executable, "-c", {GRANDCHILD.format(call="watch_parent")!r}], stdout=subprocess.PIPE)
    child.stdout.readline()
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(1)
print(child.poll(), flush=True)
child.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "None"


def test_a_step_dies_with_its_killed_run_worker(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    env = {**os.environ, "DAGSTER_HOME": str(tmp_path / "home"), "STEP_PID_FILE": str(tmp_path / "pid")}
    worker = subprocess.Popen([sys.executable, str(HERE / "sleeping_step.py")], env=env, stderr=subprocess.DEVNULL)
    try:
        file = tmp_path / "pid"
        assert until(lambda: file.exists() and file.read_text().endswith("\n"), 60)
        pid = int(file.read_text())
        assert pid != worker.pid
        assert alive(pid)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert gone_within(pid, 2.0)
    finally:
        worker.kill()
        worker.wait()
