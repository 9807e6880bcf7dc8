"""Per-clip files opened by other means than `gc25d_core.outputs`: every member's checksum, then numpy's own npz reader."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gc25d_core.errors import OutputError
from gc25d_core.outputs.pt import read_pt


def read_raw(kind: str, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays (bf16 as uint16 bits) and provenance of one file.

    Raises:
        OutputError: missing, cut, or any member whose CRC-32 does not hold, those that no reader looks at included.
    """
    try:
        with zipfile.ZipFile(path) as z:
            members = {info.filename: z.read(info) for info in z.infolist()}
            if len(members) != len(z.infolist()):
                raise OutputError(f"{path}: a member stands twice")
        if kind == "latents":
            value = read_pt(path)
            provenance = value.pop("provenance", None)
            arrays = {k: v for k, v in value.items() if isinstance(v, np.ndarray)}
            if len(arrays) != len(value):
                raise OutputError(
                    f"{path}: holds more than tensors and provenance: {sorted(value.keys() - arrays.keys())}"
                )
        else:
            loaded = {
                n.removesuffix(".npy"): np.load(io.BytesIO(raw), allow_pickle=False) for n, raw in members.items()
            }
            provenance = json.loads(str(loaded.pop("provenance")))
            arrays = loaded
    except FileNotFoundError as e:
        raise OutputError(f"{path}: no such file") from e
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as e:
        raise OutputError(f"{path}: damaged ({type(e).__name__}: {e})") from e
    if not isinstance(provenance, dict):
        raise OutputError(f"{path}: has no provenance")
    return arrays, provenance
