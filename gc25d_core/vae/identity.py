"""Which VAE: from the setting to a file, and from the file to the hash that fingerprints carry. No torch here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import xxhash

from gc25d_core.errors import SystemFault

DEMO_VAE_PATH = Path(__file__).with_name("demo_vae.safetensors")
"""The narrow VAE that ships with the package (fp16, at most 8 MB)."""

_BLOCK_BYTES = 16 << 20


class VaeFileError(SystemFault):
    """The VAE file is missing, cut, of another kind or of other shapes. Says which file, why, and what to do."""


def resolve_vae_path(setting: str | os.PathLike[str]) -> Path:
    """The file a VAE setting means: `demo` is the packaged file, anything else is a path.

    Raises:
        VaeFileError: the path does not exist or is not a regular file.
    """
    path = DEMO_VAE_PATH if str(setting) == "demo" else Path(setting).expanduser()
    if not path.exists():
        raise VaeFileError(f"VAE file {path} does not exist; to do: pass the path of Wan2.2_VAE.pth, or `demo`")
    if not path.is_file():
        raise VaeFileError(f"VAE {path} is not a file; to do: pass the checkpoint file itself, not its folder")
    return path.resolve()


def check_kind(path: Path) -> None:
    """Refuse what is no checkpoint by its first bytes, before its hash becomes part of a data set. No torch here.

    Raises:
        VaeFileError: the file is neither a torch archive or pickle nor safetensors.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(9)
    except OSError as e:
        raise VaeFileError(f"VAE file {path} cannot be read: {e}") from e
    if not (head.startswith((b"PK\x03\x04", b"\x80\x02")) or head[8:] == b"{"):
        raise VaeFileError(
            f"VAE file {path} is no checkpoint: it begins with {head!r}, neither a torch file nor safetensors; "
            "to do: pass the path of Wan2.2_VAE.pth, or `demo`"
        )


def vae_hash(path: Path, cache_dir: Path | None = None) -> str:
    """xxh3_128 of the file's bytes, as 32 hex digits.

    A 2.8 GB file takes seconds to hash, so the result is kept in `cache_dir`, one small JSON file for each path, valid
    as long as size, mtime_ns and inode are the same.

    Raises:
        VaeFileError: the file cannot be read, or changed while it was being read.
    """
    try:
        before = _stamp(path)
        cache_file = None if cache_dir is None else _cache_file(cache_dir, path)
        if cache_file is not None:
            known = _read_cache(cache_file)
            if known.get("stamp") == before and known.get("path") == str(path) and isinstance(known.get("hash"), str):
                return str(known["hash"])
        digest = xxhash.xxh3_128()
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        if _stamp(path) != before:
            raise VaeFileError(f"VAE file {path} changed while it was being hashed; to do: wait until it is whole")
    except OSError as e:
        raise VaeFileError(f"VAE file {path} cannot be read: {e}") from e
    value = digest.hexdigest()
    if cache_file is not None:
        _write_cache(cache_file, {"path": str(path), "stamp": before, "hash": value})
    return value


def _stamp(path: Path) -> dict[str, int]:
    st = path.stat()
    return {"size": st.st_size, "mtime_ns": st.st_mtime_ns, "inode": st.st_ino}


def _cache_file(cache_dir: Path, path: Path) -> Path:
    return cache_dir / f"vae-{xxhash.xxh3_64_hexdigest(str(path).encode())}.json"


def _read_cache(file: Path) -> dict[str, object]:
    """The cached entry; an unreadable or damaged one counts as absent, because it can always be computed again."""
    try:
        value = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_cache(file: Path, value: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.tmp{os.getpid()}")
    temporary.write_text(json.dumps(value))
    os.replace(temporary, file)
