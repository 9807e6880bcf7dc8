"""Content hashes: what a file says, independent of compression, containers and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash


def content_hash(arrays: Mapping[str, np.ndarray]) -> str:
    """xxh3_128 over name, dtype, shape and bytes of each array, names sorted; 32 hex digits."""
    h = xxhash.xxh3_128()
    for name in sorted(arrays):
        a = np.asarray(arrays[name], order="C")
        h.update(f"{name}|{a.dtype.str}|{a.shape}|".encode())
        h.update(a.reshape(-1).view(np.uint8).data if a.size else b"")
    return h.hexdigest()


def bytes_hash(data: bytes | memoryview) -> str:
    """xxh3_128 of plain bytes, 32 hex digits."""
    return xxhash.xxh3_128_hexdigest(data)


def json_hash(value: Any) -> str:
    """xxh3_128 of a json value in canonical form."""
    return bytes_hash(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())
