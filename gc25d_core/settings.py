"""All settings of one data set in one frozen object: validated together, resolved once, printed, hashed.

Two kinds. *Shaping* settings change what is in the outputs (target size, VAE, precision, thresholds): they stand in
`prep_args.json`, and a data set never mixes two of them. The others (workers, device, seats) only change how fast.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gc25d_core.errors import SettingsError
from gc25d_core.geometry import VAE_STRIDE
from gc25d_core.outputs.publish import publish_json, read_json, sync_folder
from gc25d_core.paths import Paths
from gc25d_core.vae.identity import VaeFileError, check_kind, resolve_vae_path, vae_hash

DEVICES = ("cpu", "cuda")
PRECISIONS = ("exact", "fast")
DEFAULT_SIZE = (832, 480)


@dataclass(frozen=True)
class Settings:
    """Build it with `Settings.resolve`, which reports every mistake at once."""

    src: Path
    """Folder that holds the runs."""
    out: Path
    """Folder of the data set."""
    vae: str = "demo"
    """`demo` (the packaged narrow VAE) or the path of `Wan2.2_VAE.pth`."""
    device: str = "cpu"
    """`cpu` or `cuda`: where latents are made."""
    precision: str = "exact"
    """`exact` (DiffSynth's bits) or `fast` (CUDA only, within the documented tolerance)."""
    size: tuple[int, int] = DEFAULT_SIZE
    """Target (width, height) in pixels."""
    buried_player_frac: float = 0.5
    """A clip whose player is hidden in a larger share of its non-dead frames is dropped (assumed)."""
    workers: int = 1
    """Threads that prepare conditions and decode frames inside one step."""
    cpu_threads: int = 1
    """Torch threads of a CPU encode; pinned, because the count changes low bits."""
    seats: int = 4
    """Steps that may share one GPU: one encodes while the next starts up and decodes ahead."""
    spot_clips: int = 4
    """Clips that the deep checks look at."""

    @classmethod
    def resolve(cls, *, src: str | Path | None, out: str | Path | None, vae: str = "demo", device: str = "cpu",
                precision: str = "exact", size: str | tuple[int, int] = DEFAULT_SIZE, buried_player_frac: float = 0.5,
                workers: int | None = None, cpu_threads: int | None = None, seats: int = 4,
                spot_clips: int = 4) -> Settings:  # fmt: skip
        """Check everything and make paths absolute.

        Raises:
            SettingsError: with one line for each mistake.
        """
        wrong: list[str] = []
        if src is None or not str(src):
            wrong.append("source: not set; give the folder of the recordings with --src or GC25D_SRC")
        elif not Path(src).is_dir():
            wrong.append(f"source {src}: no such folder; give the folder that holds the runs with --src or GC25D_SRC")
        if out is None or not str(out):
            wrong.append("output: not set; give the folder of the data set with --out or GC25D_OUT")
        else:
            wrong += _unusable(Path(out))
        if device not in DEVICES:
            wrong.append(f"device {device!r}: expected one of {', '.join(DEVICES)}")
        if precision not in PRECISIONS:
            wrong.append(f"precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
        if precision == "fast" and device == "cpu":
            wrong.append("precision 'fast' needs device 'cuda'; on a CPU use 'exact'")
        parsed = _size(size)
        if (
            parsed is None
            or parsed[0] < VAE_STRIDE
            or parsed[1] < VAE_STRIDE
            or parsed[0] % VAE_STRIDE
            or parsed[1] % VAE_STRIDE
        ):
            wrong.append(f"size {size!r}: expected WxH in pixels, both multiples of {VAE_STRIDE}, for example 832x480")
        if not 0 <= buried_player_frac <= 1:
            wrong.append(f"buried_player_frac {buried_player_frac}: expected a share between 0 and 1")
        cores = len(os.sched_getaffinity(0))
        numbers = {"workers": cores if workers is None else workers, "cpu_threads": cores if cpu_threads is None else cpu_threads,
                   "seats": seats, "spot_clips": spot_clips}  # fmt: skip
        wrong += [f"{name} {n}: expected at least 1" for name, n in numbers.items() if n < 1]
        try:
            path = vae if vae == "demo" else str(resolve_vae_path(vae))
        except VaeFileError as e:
            wrong.append(f"vae: {e}")
        if wrong:
            raise SettingsError(wrong)
        assert src is not None and out is not None and parsed is not None
        return cls(
            Path(src).resolve(),
            Path(out).resolve(),
            path,
            device,
            precision,
            parsed,
            float(buried_player_frac),
            **numbers,
        )

    @cached_property
    def paths(self) -> Paths:
        """Names of everything below `out`."""
        return Paths(self.out)

    @cached_property
    def vae_hash(self) -> str:
        """Content hash of the checkpoint, cached by path, size, mtime_ns and inode."""
        return vae_hash(resolve_vae_path(self.vae), self.paths.cache)

    def shaping(self) -> dict[str, Any]:
        """The settings that change what is in the outputs."""
        return {
            "size": list(self.size),
            "precision": self.precision,
            "buried_player_frac": self.buried_player_frac,
            "vae_hash": self.vae_hash,
        }

    def to_json(self) -> dict[str, Any]:
        """Every setting, resolved; `Settings.from_json` reads it back."""
        return {
            "src": str(self.src), "out": str(self.out), "vae": self.vae, "device": self.device,
            "precision": self.precision, "size": list(self.size), "buried_player_frac": self.buried_player_frac,
            "workers": self.workers, "cpu_threads": self.cpu_threads, "seats": self.seats, "spot_clips": self.spot_clips,
        }  # fmt: skip

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Settings:
        return cls.resolve(**{**row, "size": tuple(row["size"])})

    def check_prep_args(self, *, reconfigure: bool = False) -> None:
        """Refuse shaping settings that differ from those this data set was made with; write them the first time.

        Raises:
            SettingsError: one line for each difference. With `reconfigure` the new settings are written instead, and
                everything they shape becomes stale.
        """
        check_kind(resolve_vae_path(self.vae))
        have = read_json(self.paths.prep_args)
        now = self.shaping()
        if have is not None and not reconfigure:
            old = have.get("shaping", {})
            differ = [k for k in sorted({*old, *now}) if old.get(k) != now.get(k)]
            if differ:
                raise SettingsError(
                    [f"the data set in {self.out} was made with other settings:"]
                    + [f"  {k}: {old.get(k)} there, {now.get(k)} now" for k in differ]
                    + ["use another --out, the old settings, or --reconfigure to redo what they shape"]
                )
        if have is None or have.get("shaping") != now:
            publish_json(self.paths.prep_args, {"shaping": now, "settings": self.to_json()})
            sync_folder(self.out)


def _unusable(out: Path) -> list[str]:
    """What is wrong with an output folder that exists, or cannot be one."""
    try:
        resolved = out.resolve()
        nearest = next(p for p in (resolved, *resolved.parents) if p.exists())
    except (OSError, RuntimeError) as e:  # a loop of links, a name that is too long
        return [f"output {out}: cannot be a folder ({e})"]
    return [] if nearest.is_dir() else [f"output {out}: {nearest} is not a folder"]


def _size(value: str | tuple[int, int]) -> tuple[int, int] | None:
    if isinstance(value, str):
        m = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", value.strip())
        return (int(m.group(1)), int(m.group(2))) if m else None
    return (int(value[0]), int(value[1])) if len(value) == 2 else None
