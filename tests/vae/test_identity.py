"""Names and hashes of checkpoints, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from gc25d_core.vae import DEMO_VAE_PATH, VaeFileError, identity, resolve_vae_path, vae_hash


def test_importing_and_hashing_does_not_import_torch(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, gc25d_core.vae as v; v.vae_hash(v.resolve_vae_path('demo'), pathlib.Path(sys.argv[1]));"
        "assert not {'torch', 'diffsynth', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])


def test_demo_means_the_packaged_file() -> None:
    assert resolve_vae_path("demo") == DEMO_VAE_PATH.resolve()


def test_a_folder_and_a_missing_path_are_errors(tmp_path: Path) -> None:
    with pytest.raises(VaeFileError, match="not a file"):
        resolve_vae_path(tmp_path)
    with pytest.raises(VaeFileError, match="does not exist"):
        resolve_vae_path(tmp_path / "x.pth")


def test_hash_is_of_the_bytes_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "w.pth"
    file.write_bytes(b"weights")
    assert vae_hash(file, tmp_path / "cache") == xxhash.xxh3_128_hexdigest(b"weights")
    monkeypatch.setattr(identity.xxhash, "xxh3_128", None)  # hashing again would fail
    assert vae_hash(file, tmp_path / "cache") == xxhash.xxh3_128_hexdigest(b"weights")


@pytest.mark.parametrize("change", ["content", "touch", "replace"])
def test_changed_file_is_hashed_again(tmp_path: Path, change: str) -> None:
    file, cache = tmp_path / "w.pth", tmp_path / "cache"
    file.write_bytes(b"weights")
    vae_hash(file, cache)
    if change == "content":
        file.write_bytes(b"other bytes")
    elif change == "touch":
        file.write_bytes(b"weightz")
        os.utime(file, ns=(1, 1))
    else:
        stamp = file.stat().st_mtime_ns
        (tmp_path / "new").write_bytes(b"weightz")
        os.utime(tmp_path / "new", ns=(stamp, stamp))
        os.replace(tmp_path / "new", file)  # same size and time, another inode
    assert vae_hash(file, cache) == xxhash.xxh3_128_hexdigest(file.read_bytes())


def test_damaged_cache_is_ignored(tmp_path: Path) -> None:
    file, cache = tmp_path / "w.pth", tmp_path / "cache"
    file.write_bytes(b"weights")
    vae_hash(file, cache)
    (note,) = cache.iterdir()
    note.write_text("{")
    assert vae_hash(file, cache) == xxhash.xxh3_128_hexdigest(b"weights")
