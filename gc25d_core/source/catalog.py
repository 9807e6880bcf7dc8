"""Which runs there are, and the data version of each."""

from __future__ import annotations

from pathlib import Path

import xxhash

from gc25d_core.errors import Fault, SettingsError, SourceError
from gc25d_core.names import is_name
from gc25d_core.source.run import read_run_json
from gc25d_core.source.tarindex import shard_paths


def list_runs(src: Path) -> list[str]:
    """Names of the runs below `src`, sorted: folders with a legal name that hold a run.json.

    Raises:
        SettingsError: `src` is no readable folder.
    """
    try:
        return sorted(p.name for p in src.iterdir() if is_name(p.name) and (p / "run.json").is_file())
    except OSError as e:
        raise SettingsError([f"source {src} cannot be read: {e.strerror}; give the folder that holds the runs"]) from e


def bad_run_folders(src: Path) -> list[Fault]:
    """Folders below `src` that look like runs (they hold shards or a run.json) but cannot be one."""
    faults: list[Fault] = []
    for folder in sorted(p for p in src.iterdir() if p.is_dir()):
        try:
            looks_like = (folder / "run.json").exists() or bool(shard_paths(folder))
            if looks_like:
                read_run_json(folder, folder.name)
        except SourceError as e:
            faults.extend(e.faults)
        except OSError as e:
            faults.append(
                Fault(
                    "run_unreadable", f"the folder cannot be read: {e.strerror}", folder.name, fix="check permissions"
                )
            )
    return faults


def run_digest(src: Path, run: str) -> str:
    """Data version of a run: digest of run.json and blocks.jsonl (bytes) and of the shards' names, sizes and mtimes.

    Cheap: no shard is opened. Raises SourceError for an unknown run.
    """
    folder = src / run
    if not is_name(run) or not folder.is_dir():
        raise SourceError(
            Fault("run_unknown", f"there is no such run below {src}", run, fix="check the name and the source setting")
        )
    h = xxhash.xxh3_128()
    for name in ("run.json", "blocks.jsonl"):
        path = folder / name
        h.update(name.encode())
        h.update(_bytes_of(path))
    for path in shard_paths(folder):
        try:
            stat = path.stat()
        except OSError as e:  # a dangling link: planning the run says so
            h.update(f"{path.name}|{e.errno}\n".encode())
        else:
            h.update(f"{path.name}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
    return h.hexdigest()


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        return f"-{e.errno}".encode()
