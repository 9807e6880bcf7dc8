"""Dagster's three servers (code, webserver, daemon) as children that die with this process.

One code server is shared by the webserver and the daemon, over a socket in a private folder; it starts the run workers, so
that the whole tree hangs on this process. Each child has a session of its own: Ctrl-C in the terminal reaches only the
supervisor, which stops the runs before it stops the servers.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from gc25d_assets.cli.graphql import LOCATION
from gc25d_assets.cli.home import FOLDER_PREFIX
from gc25d_assets.process import DIE_WITH_PARENT_ENV
from gc25d_core.errors import SettingsError

CODE_MODULE = "gc25d_assets.definitions"
# A CPU encode frees and asks again for buffers of tens of megabytes at every convolution. glibc gives each back to the kernel,
# which clears it anew: 22 s of system time in 54 s for two clips of 416x240, against 2 s when it keeps up to 1 GiB.
KEEP_BUFFERS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
_STOP_S = 4.0
_START_S = 120.0


class ServerDied(RuntimeError):
    """A server ended by itself, or did not come up. Carries the end of its log."""

    def __init__(self, name: str, log: Path, code: int | None) -> None:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
        how = "did not answer in time" if code is None else f"ended with exit code {code}"
        super().__init__(f"the {name} {how}; its log is {log}\n{tail}")


class Servers:
    """The running children. Made by `running_servers`."""

    def __init__(self, home: Path, host: str, port: int, env: Mapping[str, str]) -> None:
        self.home, self.host, self.port = home, host, port
        self._env = {**os.environ, **env, "DAGSTER_HOME": str(home), DIE_WITH_PARENT_ENV: "1"}
        self._logs = home / "servers"
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))

    @property
    def url(self) -> str:
        """Where the UI and GraphQL answer on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def start_code(self) -> None:
        """Starts the code server, which loads while the caller prepares the instance."""
        where = ["--socket", str(self._socket), "--location-name", LOCATION, "-m", CODE_MODULE]
        self._start("code server", ["dagster", "api", "grpc", "--use-python-environment-entry-point", *where])

    def start_rest(self) -> None:
        """Waits for the code server, starts webserver and daemon, waits until the webserver answers."""
        self._wait("code server", lambda: self._socket.exists() and _connects(self._socket))
        workspace = self.folder / "workspace.yaml"
        server = {"host": "localhost", "socket": str(self._socket), "location_name": LOCATION}
        workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))  # JSON is YAML
        serve = ["-h", self.host, "-p", str(self.port), "-w", str(workspace)]
        self._start("webserver", ["dagster_webserver", *serve])
        self._start("daemon", ["dagster._daemon", "run", "-w", str(workspace)])
        self._wait("webserver", lambda: _answers(f"{self.url}/server_info"))

    def check(self) -> None:
        """ServerDied if one of the children is gone."""
        for name, child in self._children.items():
            if child.poll() is not None:
                raise ServerDied(name, self._log(name), child.returncode)

    def stop(self) -> None:
        """Ends the children and everything under them: SIGTERM, a few seconds, SIGKILL."""
        family = {p for child in self._children.values() for p in _tree(child.pid)}
        for child in self._children.values():
            if child.poll() is None:
                child.terminate()
        deadline = time.monotonic() + _STOP_S
        while time.monotonic() < deadline and any(c.poll() is None for c in self._children.values()):
            family.update(p for child in self._children.values() for p in _tree(child.pid))
            time.sleep(0.05)
        for process in family:
            _kill(process)
        for child in self._children.values():
            child.wait()
        self._children.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _socket(self) -> Path:
        return self.folder / "code.sock"

    def _log(self, name: str) -> Path:
        return self._logs / f"{name.replace(' ', '-')}.log"

    def _start(self, name: str, module_and_args: list[str]) -> None:
        self._logs.mkdir(exist_ok=True)
        guard = [sys.executable, "-m", "gc25d_assets.cli.child", str(os.getpid())]
        with self._log(name).open("wb") as log:
            self._children[name] = subprocess.Popen(
                [*guard, sys.executable, "-m", *module_and_args],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_S
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise ServerDied(name, self._log(name), None)
            time.sleep(0.1)


@contextmanager
def running_servers(home: Path, *, host: str, port: int, env: Mapping[str, str]) -> Iterator[Servers]:
    """A supervisor whose children are gone when the block ends, however it ends. Call from the main thread."""
    servers = Servers(home, host, port, env)
    try:
        yield servers
    finally:
        servers.stop()


def free_port(host: str = "127.0.0.1", wanted: int = 0) -> int:
    """`wanted`, or for 0 any TCP port nobody listens on now.

    Raises:
        SettingsError: somebody listens there, or this machine does not have the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, wanted), family=family) as probe:
            return int(probe.getsockname()[1])
    except OSError as error:
        why = os.strerror(error.errno) if error.errno is not None else str(error)
        raise SettingsError([f"cannot listen on {host}, port {wanted}: {why}; choose another --port"]) from error


def _tree(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()  # psutil compares the start time: a reused pid is left alone
    except psutil.NoSuchProcess:
        return


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy
