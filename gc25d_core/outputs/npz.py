"""`.npz` containers that `np.load(..., allow_pickle=False)` reads, deflated by ISA-L.

The container is a zip (PKWARE APPNOTE 6.3, local headers, central directory, no zip64: a member stays under 4 GiB).
ISA-L's level 1 deflates label maps about ten times faster than zlib's level 6 and nearly as small.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from isal import isal_zlib

from gc25d_core.errors import OutputError

_LEVEL = 1
_LIMIT = 0xFFFFFFFF
PROVENANCE = "provenance"


def _npy(array: np.ndarray) -> bytes:
    buf = io.BytesIO()
    np.lib.format.write_array(buf, np.asarray(array, order="C"), allow_pickle=False)  # keeps 0-d arrays 0-d
    return buf.getvalue()


def write_npz(f: BinaryIO, arrays: Mapping[str, np.ndarray], provenance: Mapping[str, Any]) -> None:
    """Write arrays, and provenance as a json text array (`str(np.load(path)["provenance"])`), first."""
    text = json.dumps(dict(provenance), sort_keys=True, allow_nan=False)
    members = {PROVENANCE: np.array(text), **arrays}
    directory, start = [], f.tell()
    for name, array in members.items():
        raw = _npy(array)
        deflate = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, -15)
        data = deflate.compress(raw) + deflate.flush()
        if max(len(raw), len(data)) >= _LIMIT:
            raise OutputError(f"array {name} of {len(raw)} bytes is too large for one zip member")
        file = f"{name}.npy".encode()
        # version 2.0, no flags, deflate, 1980-01-01: equal content gives equal bytes
        fixed = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, isal_zlib.crc32(raw), len(data), len(raw), len(file), 0)
        offset = f.tell() - start
        f.write(b"PK\x03\x04" + fixed + file)
        f.write(data)
        directory.append(
            b"PK\x01\x02" + struct.pack("<H", 20) + fixed + struct.pack("<HHHII", 0, 0, 0, 0, offset) + file
        )
    at = f.tell() - start
    f.write(b"".join(directory))
    size = f.tell() - start - at
    n = len(directory)
    f.write(b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, n, n, size, at, 0))


def read_npz(path: Path, names: tuple[str, ...] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays (all, or only `names`) and provenance.

    Raises:
        OutputError: no such file, cut, a member missing or damaged (every member's CRC-32 is checked).
    """
    try:
        with zipfile.ZipFile(path) as z:
            have = [n.removesuffix(".npy") for n in z.namelist()]
            wanted = [n for n in have if n != PROVENANCE] if names is None else list(names)
            arrays = {n: _member(z, n) for n in wanted}
            provenance = json.loads(str(_member(z, PROVENANCE)))
    except FileNotFoundError as e:
        raise OutputError(f"{path}: no such file") from e
    except (OSError, KeyError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as e:
        raise OutputError(
            f"{path}: cannot be read as npz ({type(e).__name__}: {e}); delete it and build its run again"
        ) from e
    return arrays, provenance


def _member(z: zipfile.ZipFile, name: str) -> np.ndarray:
    info = z.getinfo(f"{name}.npy")
    with z.open(info) as f:
        raw = f.read()
    buf = io.BytesIO(raw)
    array = np.lib.format.read_array(buf, allow_pickle=False)
    if buf.tell() != len(raw):
        raise ValueError(f"member {name} has {len(raw) - buf.tell()} bytes too many")
    return array
