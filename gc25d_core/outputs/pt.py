"""Read a `latents/<clip>.pt` without torch, and without trusting a pickle.

A .pt file is a zip: `<name>/data.pkl` describes the object, `<name>/data/<key>` holds each tensor's raw bytes. The
unpickler below knows four names and builds numpy views; anything else is refused, as `torch.load(weights_only=True)`
would. This makes "is this clip finished?" and structural verification cost milliseconds instead of an import of torch.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from gc25d_core.errors import OutputError

_DTYPES = {
    "BFloat16Storage": "<u2",
    "ByteStorage": "u1",
    "IntStorage": "<i4",
    "FloatStorage": "<f4",
    "LongStorage": "<i8",
}


class _StorageType:
    def __init__(self, name: str) -> None:
        self.name = name


class _Reader(pickle.Unpickler):
    def __init__(self, archive: zipfile.ZipFile, prefix: str) -> None:
        self._archive, self._prefix = archive, prefix
        super().__init__(io.BytesIO(archive.read(f"{prefix}/data.pkl")))  # read whole: its CRC-32 is checked

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _DTYPES:
            return _StorageType(name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a latents file")

    def persistent_load(self, pid: Any) -> np.ndarray:
        kind, storage, key, _device, count = pid
        if kind != "storage" or not isinstance(storage, _StorageType):
            raise pickle.UnpicklingError(f"unknown persistent id {kind!r}")
        raw = self._archive.read(f"{self._prefix}/data/{key}")
        array = np.frombuffer(raw, _DTYPES[storage.name])
        if array.size != count:
            raise ValueError(f"storage {key} holds {array.size} items, not {count}")
        return array


def _rebuild(storage: np.ndarray, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> np.ndarray:
    n = int(np.prod(size, dtype=np.int64))
    dense = tuple(int(np.prod(size[i + 1 :], dtype=np.int64)) for i in range(len(size)))
    if offset or n != storage.size or (n > 1 and tuple(stride) != dense):
        raise ValueError("a tensor is a view into a larger storage; latents files hold whole, contiguous tensors")
    return storage.reshape(size)


def read_pt(path: Path) -> dict[str, Any]:
    """The dict in a .pt: tensors as numpy arrays (bf16 as its uint16 bits), everything else as it is.

    Raises:
        OutputError: missing, cut, damaged (CRC-32 of each zip member), or holding anything but plain data and tensors.
    """
    try:
        with zipfile.ZipFile(path) as z:
            prefix = z.namelist()[0].split("/", 1)[0]
            value = _Reader(z, prefix).load()
    except FileNotFoundError as e:
        raise OutputError(f"{path}: no such file") from e
    except (OSError, zipfile.BadZipFile, pickle.UnpicklingError, KeyError, ValueError, EOFError, IndexError,
            TypeError, AttributeError, NotImplementedError, UnicodeDecodeError, MemoryError) as e:  # fmt: skip
        raise OutputError(
            f"{path}: cannot be read as a latents file ({type(e).__name__}: {e}); delete it and build its run again"
        ) from e
    if not isinstance(value, dict):
        raise OutputError(f"{path}: holds {type(value).__name__}, not a dict")
    return value
