"""The four per-clip files as typed objects: what each must hold, how to read it, what its content hash covers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gc25d_core.classes import N_IDS
from gc25d_core.errors import OutputError
from gc25d_core.frames import CLIP_BLOCKS, CLIP_CELLS, CLIP_FRAMES, EXT_FRAMES, FULL_BLOCKS, FULL_FRAMES
from gc25d_core.geometry import Geometry
from gc25d_core.outputs.content import content_hash
from gc25d_core.outputs.npz import PROVENANCE, read_npz
from gc25d_core.outputs.pt import read_pt

if TYPE_CHECKING:
    import torch

LATENT_CHANNELS = 48


@dataclass(frozen=True)
class CondFile:
    """`cond/<clip>.npz` or `cond_ext/<clip>.npz`."""

    parts: np.ndarray
    """uint8 [81 or 28, H, W]: static classes and body parts."""
    provenance: dict[str, Any]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"parts": self.parts}

    @cached_property
    def content_hash(self) -> str:
        return content_hash(self.arrays)


@dataclass(frozen=True)
class MetaFile:
    """`meta/<clip>.npz`. F = 109 with the extension, else 81; N = the largest number of capsules in a frame."""

    frames: np.ndarray
    """int32 [F], absolute frame numbers."""
    capsules: np.ndarray
    """float32 [F, N, 8]: a, b (cm), radius (cm), part id; padded with NaN and part 0."""
    K: np.ndarray
    """float64 [F, 3, 3], pixels of the target image."""
    world_to_camera: np.ndarray
    """float64 [F, 4, 4]."""
    ground_z: np.ndarray
    """float32 [F] (cm), NaN without player capsules."""
    player_px: np.ndarray
    """int32 [F]."""
    boss_px: np.ndarray
    """int32 [F]."""
    class_px: np.ndarray
    """int32 [F, 22], pixels of each id of `cond`."""
    static_change: np.ndarray
    """float32 [F-1]."""
    dead: np.ndarray
    """bool [F]."""
    bot_mode: np.ndarray
    """str [F]."""
    geometry: Geometry
    provenance: dict[str, Any]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "frames": self.frames,
            "capsules": self.capsules,
            "K": self.K,
            "world_to_camera": self.world_to_camera,
            "ground_z": self.ground_z,
            "player_px": self.player_px,
            "boss_px": self.boss_px,
            "class_px": self.class_px,
            "static_change": self.static_change,
            "dead": self.dead,
            "bot_mode": self.bot_mode,
            "geometry": np.array(json.dumps(self.geometry.to_json(), sort_keys=True)),
        }

    @cached_property
    def content_hash(self) -> str:
        return content_hash(self.arrays)


@dataclass(frozen=True)
class LatentsFile:
    """`latents/<clip>.pt`."""

    latent_bits: np.ndarray
    """uint16 [48, 21, H/16, W/16]: the bits of the bf16 latent."""
    actions_block: np.ndarray
    """uint8 [20 or 27, A]; row j drives cell j+1."""
    frames: np.ndarray
    """int32 [81]."""
    provenance: dict[str, Any]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"latent": self.latent_bits, "actions_block": self.actions_block, "frames": self.frames}

    @cached_property
    def content_hash(self) -> str:
        return content_hash(self.arrays)

    def latent(self) -> torch.Tensor:
        """bf16 [48, 21, H/16, W/16], a copy."""
        import torch

        return torch.from_numpy(self.latent_bits.view(np.int16).copy()).view(torch.bfloat16)

    def latent_float(self) -> np.ndarray:
        """float32 [48, 21, H/16, W/16], exact values of the bf16 latent."""
        return (self.latent_bits.astype(np.uint32) << 16).view(np.float32)


def _expect(path: Path, name: str, array: np.ndarray, dtype: str, shape: tuple[int | None, ...]) -> None:
    kind_ok = array.dtype.kind == "U" if dtype == "str" else array.dtype == np.dtype(dtype)
    shape_ok = array.ndim == len(shape) and all(w is None or w == h for w, h in zip(shape, array.shape))
    if not (kind_ok and shape_ok):
        want = f"{dtype} [{', '.join('*' if w is None else str(w) for w in shape)}]"
        raise OutputError(f"{path}: {name} is {array.dtype} {list(array.shape)}, expected {want}")


def _members(path: Path, arrays: dict[str, Any], wanted: tuple[str, ...]) -> None:
    if set(arrays) != set(wanted):
        raise OutputError(f"{path}: holds {sorted(arrays)}, expected {sorted(wanted)}")


def _read_parts(path: Path, frames: int) -> CondFile:
    arrays, provenance = read_npz(path)
    _members(path, arrays, ("parts",))
    _expect(path, "parts", arrays["parts"], "uint8", (frames, None, None))
    return CondFile(arrays["parts"], provenance)


def read_cond(path: Path) -> CondFile:
    """Read and check `cond/<clip>.npz`; raises OutputError."""
    return _read_parts(path, CLIP_FRAMES)


def read_cond_ext(path: Path) -> CondFile:
    """Read and check `cond_ext/<clip>.npz`; raises OutputError."""
    return _read_parts(path, EXT_FRAMES)


_META = ("frames", "capsules", "K", "world_to_camera", "ground_z", "player_px", "boss_px", "class_px",
         "static_change", "dead", "bot_mode", "geometry")  # fmt: skip


def read_meta(path: Path) -> MetaFile:
    """Read and check `meta/<clip>.npz`; raises OutputError."""
    a, provenance = read_npz(path)
    _members(path, a, _META)
    n = len(a["frames"]) if a["frames"].ndim == 1 else -1
    if n not in (CLIP_FRAMES, FULL_FRAMES):
        raise OutputError(
            f"{path}: frames is {a['frames'].dtype} {list(a['frames'].shape)}, expected int32 [81] or [109]"
        )
    for name, dtype, shape in (
        ("frames", "int32", (n,)),
        ("capsules", "float32", (n, None, 8)),
        ("K", "float64", (n, 3, 3)),
        ("world_to_camera", "float64", (n, 4, 4)),
        ("ground_z", "float32", (n,)),
        ("player_px", "int32", (n,)),
        ("boss_px", "int32", (n,)),
        ("class_px", "int32", (n, N_IDS)),
        ("static_change", "float32", (n - 1,)),
        ("dead", "bool", (n,)),
        ("bot_mode", "str", (n,)),
        ("geometry", "str", ()),
    ):
        _expect(path, name, a[name], dtype, shape)
    try:
        geometry = Geometry.from_json(json.loads(str(a.pop("geometry"))))
    except (ValueError, KeyError, TypeError) as e:
        raise OutputError(f"{path}: geometry cannot be read ({e})") from e
    return MetaFile(**a, geometry=geometry, provenance=provenance)


def read_latents(path: Path) -> LatentsFile:
    """Read and check `latents/<clip>.pt` without torch; raises OutputError."""
    d = read_pt(path)
    _members(path, d, ("latent", "actions_block", "frames", PROVENANCE))
    for name, dtype, shape in (
        ("latent", "uint16", (LATENT_CHANNELS, CLIP_CELLS, None, None)),
        ("actions_block", "uint8", (None, None)),
        ("frames", "int32", (CLIP_FRAMES,)),
    ):
        if not isinstance(d[name], np.ndarray):
            raise OutputError(f"{path}: {name} is {type(d[name]).__name__}, not a tensor")
        _expect(path, name, d[name], dtype, shape)
    if len(d["actions_block"]) not in (CLIP_BLOCKS, FULL_BLOCKS):
        raise OutputError(f"{path}: actions_block has {len(d['actions_block'])} rows, expected 20 or 27")
    if not isinstance(d[PROVENANCE], dict):
        raise OutputError(f"{path}: provenance is {type(d[PROVENANCE]).__name__}, not a dict")
    return LatentsFile(d["latent"], d["actions_block"], d["frames"], d[PROVENANCE])


READERS = {"latents": read_latents, "cond": read_cond, "cond_ext": read_cond_ext, "meta": read_meta}


def read_provenance(path: Path) -> dict[str, Any]:
    """Only the provenance of any per-clip file, without reading its arrays where the format allows; raises OutputError."""
    if path.suffix == ".pt":
        found = read_pt(path).get(PROVENANCE)
        if not isinstance(found, dict):
            raise OutputError(f"{path}: has no provenance")
        return found
    return read_npz(path, ())[1]
