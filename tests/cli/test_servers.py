"""Children of the supervisor: gone with it, gone when asked, and missed when they go by themselves."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gc25d_assets.cli import main as entry
from gc25d_assets.cli.servers import ServerDied, Servers, running_servers

SUPERVISOR = """
import sys, time
from pathlib import Path
from gc25d_assets.cli import main as entry
from gc25d_assets.cli.servers import running_servers
with running_servers(Path(sys.argv[1]), host="127.0.0.1", port=1, env={}) as servers:
    servers._start("clock", ["tests_stand_in"])
    print(servers._children["clock"].pid, flush=True)
    time.sleep(60)
"""
SLEEPER = "import time; time.sleep(60)"
DEAF = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"
)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `tests_stand_in` that children can run; the file, to write its text."""
    folder = tmp_path / "modules"
    folder.mkdir()
    path = [str(folder), *(p for p in sys.path if p)]
    monkeypatch.setenv("PYTHONPATH", ":".join(path))
    return folder / "tests_stand_in.py"


def running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def gone_within(seconds: float, *pids: int) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(running, pids)):
        time.sleep(0.02)
    return not any(map(running, pids))


def test_a_child_dies_with_a_killed_supervisor(stand_in: Path, tmp_path: Path) -> None:
    stand_in.write_text(SLEEPER)
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    child = int(supervisor.stdout.readline())
    assert running(child)
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    assert gone_within(2.0, child)


def test_a_child_that_does_not_listen_is_killed_with_its_own_children(stand_in: Path, tmp_path: Path) -> None:
    stand_in.write_text(DEAF)
    with running_servers(tmp_path, host="127.0.0.1", port=1, env={}) as servers:
        servers._start("clock", ["tests_stand_in"])
        child = psutil.Process(servers._children["clock"].pid)
        end = time.monotonic() + 20
        while not child.children() and time.monotonic() < end:
            time.sleep(0.05)
        (grandchild,) = child.children()
    assert gone_within(1.0, child.pid, grandchild.pid)
    assert not servers.folder.exists()


def test_a_child_that_ends_by_itself_is_missed_with_the_end_of_its_log(stand_in: Path, tmp_path: Path) -> None:
    stand_in.write_text("print('I am tired'); raise SystemExit(3)")
    with running_servers(tmp_path, host="127.0.0.1", port=1, env={}) as servers:
        servers._start("clock", ["tests_stand_in"])
        servers._children["clock"].wait()
        with pytest.raises(ServerDied, match=r"(?s)clock ended with exit code 3.*I am tired"):
            servers.check()


def test_the_url_of_a_server_that_listens_everywhere_is_local(tmp_path: Path) -> None:
    servers = Servers(tmp_path, "0.0.0.0", 3000, {})
    servers.stop()
    assert servers.url == "http://127.0.0.1:3000"


def test_a_child_whose_parent_is_gone_does_not_start() -> None:
    command = [sys.executable, "-m", "gc25d_assets.cli.child", "1", sys.executable, "-c", "print('started')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert "started" not in done.stdout


def test_a_port_that_is_taken_is_said_before_anything_starts(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        args = ["up", "--src", str(source), "--out", str(tmp_path / "ds"), "--size", "64x32", "--port", str(port)]
        monkeypatch.setattr("sys.argv", ["gc25d", *args])
        with pytest.raises(SystemExit) as caught:
            entry.main()
    assert caught.value.code == 2
    assert f"port {port}: Address already in use; choose another --port" in capsys.readouterr().err
