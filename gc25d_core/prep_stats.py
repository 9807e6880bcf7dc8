"""Throughput of a build, read off the files it published: `prep_stats_<time>.json`.

Steps run in processes of their own, on several machines perhaps; what they share is the disk. So the numbers come from the
index's files and the times at which they were published, and cover exactly what was made in the given span.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gc25d_core.index import read_index
from gc25d_core.outputs.publish import publish_json, sync_folder
from gc25d_core.paths import KINDS
from gc25d_core.rows import Row
from gc25d_core.settings import Settings


def prep_stats(settings: Settings, rows: list[Row], since: float = 0.0) -> dict[str, Any]:
    """Numbers of the files of `rows` published after `since` (seconds since 1970), by kind.

    Returns:
        for each kind: `files`, `bytes`, `first` and `last` publication (ISO 8601, UTC), `seconds` between them, and
        `clips_per_second` over that span (None below two files); and `bytes_a_clip` over all kinds.
    """
    kinds: dict[str, dict[str, Any]] = {}
    clips: set[str] = set()
    for kind in KINDS:
        stats = [(r.clip, (settings.out / r.outputs[kind].path).stat()) for r in rows if kind in r.outputs]
        new = [(clip, s) for clip, s in stats if s.st_mtime >= since]
        clips |= {clip for clip, _ in new}
        times = sorted(s.st_mtime for _, s in new)
        span = times[-1] - times[0] if times else 0.0
        kinds[kind] = {
            "files": len(new),
            "bytes": sum(s.st_size for _, s in new),
            "first": _iso(times[0]) if times else None,
            "last": _iso(times[-1]) if times else None,
            "seconds": round(span, 3),
            "clips_per_second": round((len(new) - 1) / span, 4) if len(new) > 1 and span > 0 else None,
        }
    total = sum(k["bytes"] for k in kinds.values())
    return {
        "clips": len(clips),
        "bytes_a_clip": total / len(clips) if clips else None,
        "kinds": kinds,
        "since": _iso(since),
    }


def write_prep_stats(settings: Settings, since: float = 0.0) -> Path:
    """Write `prep_stats_<time>.json` for what the index holds and was published after `since`. Returns its path.

    Raises:
        OutputError: there is no index.
    """
    now = datetime.now(UTC)
    rows, index_hash = read_index(settings)
    path = settings.out / f"prep_stats_{now:%Y%m%dT%H%M%SZ}.json"
    value = {"time": now.isoformat(timespec="seconds"), "index_hash": index_hash, "settings": settings.to_json()}
    publish_json(path, value | prep_stats(settings, rows, since))
    sync_folder(path.parent)
    return path


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
