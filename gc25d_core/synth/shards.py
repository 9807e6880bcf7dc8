"""Tar shards and run folders: bytes in, files out, the same bytes every time."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count, islice
from pathlib import Path
from typing import Any


@contextmanager
def new_run_folder(root: Path, run: str) -> Iterator[Path]:
    """A folder to fill; it becomes `root/run` when the block ends without an error. An unfinished older one is removed.

    Raises:
        FileExistsError: `root/run` is there already.
    """
    final, unfinished = root / run, root / f".{run}.unfinished"
    if final.exists():
        raise FileExistsError(f"{final} exists already; choose an empty folder or remove it first")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(parents=True)
    yield unfinished
    os.replace(unfinished, final)


def write_shards(folder: Path, members: Iterable[tuple[str, bytes]], *, per_shard: int) -> int:
    """Writes (name, bytes) members in order as `shard-000000.tar`, ..., `per_shard` members each; returns the count."""
    left = iter(members)
    for number in count():
        held = list(islice(left, 1))
        if not held:
            return number
        with tarfile.open(folder / f"shard-{number:06d}.tar", "w", format=tarfile.USTAR_FORMAT) as shard:
            for name, data in chain(held, islice(left, per_shard - 1)):
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = len(data), 0o644, 0
                shard.addfile(info, io.BytesIO(data))
    raise AssertionError("unreachable: count() does not end")


def write_run_files(folder: Path, run_json: dict[str, Any], block_rows: list[dict[str, Any]]) -> None:
    """`run.json` and `blocks.jsonl`."""
    (folder / "run.json").write_text(json.dumps(run_json, indent=1) + "\n")
    lines = "".join(json.dumps(row) + "\n" for row in block_rows)
    (folder / "blocks.jsonl").write_text(lines)
