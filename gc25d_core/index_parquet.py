"""`index/clips.parquet`: the rows of `clips.jsonl` with proper nested types, for pandas, DuckDB, Polars, Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from gc25d_core.paths import KINDS
from gc25d_core.rows import Row

_OUTPUT = pa.struct([("path", pa.string()), ("bytes", pa.int64()), ("hash", pa.string())])
_HASH_KEY = b"gc25d_clips_hash"

SCHEMA = pa.schema(
    [
        pa.field("clip", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("family", pa.string(), nullable=False),
        pa.field("scene", pa.string(), nullable=False),
        pa.field("s", pa.int64(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("has_ext", pa.bool_(), nullable=False),
        ("drop_reason", pa.string()),
        ("look", pa.string()),
        ("ext_look", pa.string()),
        pa.field("ext_look_change", pa.bool_(), nullable=False),
        ("episode", pa.int64()),
        ("camera_variant", pa.string()),
        ("mirrored_world", pa.bool_()),
        ("max_frame_offset_cm", pa.float64()),
        ("player_px_mean", pa.float64()),
        ("boss_px_mean", pa.float64()),
        ("boss_visible_frac", pa.float64()),
        ("player_hidden_frac", pa.float64()),
        pa.field("n_blocks", pa.int32(), nullable=False),
        pa.field("prompts", pa.list_(pa.struct([("block", pa.int32()), ("text", pa.string())])), nullable=False),
        pa.field("outputs", pa.struct([(kind, _OUTPUT) for kind in KINDS]), nullable=False),
    ]
)
"""Nullable columns are null for "source_error" rows only, except `drop_reason` and `ext_look`. A kind of `outputs` that the
clip does not have is null."""


def parquet_table(rows: list[Row], clips_hash: str) -> pa.Table:
    """The rows in the order given; `clips_hash`, that of the `clips.jsonl` beside the file, goes into the metadata."""
    table = pa.Table.from_pylist([_record(r) for r in rows], schema=SCHEMA)
    return table.replace_schema_metadata({_HASH_KEY: clips_hash.encode()})


def write_table(table: pa.Table, f: BinaryIO) -> None:
    """The parquet file of a table, zstd compressed."""
    pq.write_table(table, f, compression="zstd")


def _record(row: Row) -> dict[str, Any]:
    record = {name: getattr(row, name) for name in row.__struct_fields__}
    record["prompts"] = [{"block": j, "text": text} for j, text in row.prompts]
    outputs = {k: {"path": o.path, "bytes": o.bytes, "hash": o.hash} for k, o in row.outputs.items()}
    return record | {"outputs": {kind: outputs.get(kind) for kind in KINDS}}


def parquet_index_hash(path: Path) -> str | None:
    """Hash of the `clips.jsonl` that this file was written beside; None if it is missing or damaged."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    found = metadata.get(_HASH_KEY)
    return found.decode() if found is not None else None
