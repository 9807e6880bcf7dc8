"""The publish rule: a file under its final name is whole.

Write `<name>.tmp<pid>.<host>.<process start>` in the same folder, flush, fsync, `os.replace`. The folder is fsynced
before the step reports (`sync_folder`). A failed write leaves nothing behind; a killed one leaves a temporary whose name
says which process of which host it belonged to.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from gc25d_core.errors import DamagedFile, SystemFault

_TEMPORARY = re.compile(r"\.tmp(\d+)\.([A-Za-z0-9-]+)\.(\d+)\Z")


@cache
def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"


def process_start(pid: int) -> int | None:
    """Start time of a process of this host in clock ticks since boot, None if there is no such process.

    Field 22 of /proc/<pid>/stat (proc(5)); with it a recycled pid is told from the old one.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rsplit(")", 1)[1].split()[19])


def temporary_name(path: Path) -> Path:
    """The temporary beside `path` that this process writes before it takes the final name."""
    pid = os.getpid()
    return path.with_name(f"{path.name}.tmp{pid}.{_host()}.{process_start(pid) or 0}")


def is_temporary(name: str) -> bool:
    """Whether a file name is that of a temporary of the publish rule."""
    return bool(_TEMPORARY.search(name))


def is_provably_dead(name: str) -> bool:
    """Whether the writer of this temporary was a process of this host that no longer lives."""
    m = _TEMPORARY.search(name)
    return bool(m) and m.group(2) == _host() and process_start(int(m.group(1))) != int(m.group(3))  # type: ignore[union-attr]


def publish(path: Path, write: Callable[[BinaryIO], None]) -> int:
    """Call `write` on a temporary and give it its final name. Returns the bytes written.

    Raises:
        SystemFault: the file system refused (full, read-only, quota); nothing is left under either name.
    """
    tmp = temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(tmp, "wb") as f:
                write(f)
                f.flush()
                os.fsync(f.fileno())
                size = os.fstat(f.fileno()).st_size
            os.replace(tmp, path)
        except BaseException:
            tmp.unlink(missing_ok=True)
            raise
    except OSError as e:
        raise SystemFault(
            f"could not write {path}: {e.strerror or e}. Nothing was left under that name; free space or mend the "
            "folder, then run the same build again (what is finished is kept)"
        ) from e
    return size


def publish_bytes(path: Path, data: bytes) -> int:
    """Publish one block of bytes."""
    return publish(path, lambda f: void(f.write(data)))


def void(_: object) -> None:
    """Drop a value."""


def json_bytes(value: Any) -> bytes:
    """Canonical json: sorted keys, no NaN, UTF-8."""
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(", ", ": ")).encode()


def publish_json(path: Path, value: Any) -> int:
    """Publish one json value, indented, for people."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return publish_bytes(path, text.encode() + b"\n")


def publish_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Publish json lines, keys in the order given."""
    lines = [json.dumps(r, allow_nan=False, ensure_ascii=False).encode() for r in rows]
    return publish_bytes(path, b"".join(line + b"\n" for line in lines))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """All rows of a json lines file; [] if there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    try:
        rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    except (ValueError, RecursionError) as e:
        raise DamagedFile(_damaged(path, e)) from e
    if not all(isinstance(row, dict) for row in rows):
        raise DamagedFile(_damaged(path, "a line is no object"))
    return rows


def read_json(path: Path) -> Any:
    """One json value; None if there is no file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as e:
        raise DamagedFile(_damaged(path, e)) from e


def _damaged(path: Path, why: object) -> str:
    return f"{path} is damaged ({why}); restore it, or delete it and build again"


def unlink(path: Path) -> bool:
    """Remove a file that no longer belongs. Returns whether it was there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. A folder that does not exist has none."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
