"""Is the fast encoder right on this machine? Asked once for each device, VAE, shape, chunk and versions, then remembered."""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import xxhash

from gc25d_core.vae.fast import FAST_VERSION
from gc25d_core.vae.provenance import ENCODER_REL_L2

Encode = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Result of comparing one clip's fast latent with its exact one, both unrounded."""

    rel_l2: float | None
    """None where the fast latent was not finite, or could not be computed."""
    limit: float
    shape: tuple[int, ...]
    """[T,H,W,3] of the frames."""
    reason: str
    remembered: bool = False

    @property
    def passed(self) -> bool:
        return self.rel_l2 is not None and self.rel_l2 <= self.limit

    def sentence(self) -> str:
        value = "no finite value" if self.rel_l2 is None else f"rel. L2 {self.rel_l2:.2e}"
        verdict = "fast is used" if self.passed else "every clip of this shape is encoded exactly"
        source = "remembered" if self.remembered else "measured"
        return f"fast encoder against exact at {self.shape}: {value} ({source}, limit {self.limit:.0e}): {verdict}. {self.reason}"


def check_fast(
    exact: Encode, fast: Encode, frames: torch.Tensor, *, cache_dir: Path | None, vae_hash: str, chunk: int | None
) -> SelfCheck:
    """Compares both on `frames` (uint8 [T,H,W,3], on the device), or returns what an earlier process found.

    A failure is not remembered: the next process asks again.
    """
    identity = {
        "fast_version": FAST_VERSION, "vae_hash": vae_hash, "shape": list(frames.shape), "chunk": chunk,
        "host": platform.node(), "limit": ENCODER_REL_L2, **versions(frames.device),
    }  # fmt: skip
    text = json.dumps(identity, sort_keys=True)
    file = None if cache_dir is None else cache_dir / f"fast-{xxhash.xxh3_64_hexdigest(text.encode())}.json"
    shape = tuple(frames.shape)
    if file is not None and file.is_file():
        try:
            known = json.loads(file.read_text())
            if known["identity"] == identity:
                return SelfCheck(float(known["rel_l2"]), ENCODER_REL_L2, shape, str(known["reason"]), remembered=True)
        except (ValueError, KeyError, TypeError):
            pass  # a damaged note is measured again and written anew
    result = _measure(exact, fast, frames)
    if file is not None and result.passed:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.tmp{os.getpid()}")
        temporary.write_text(json.dumps({"identity": identity, **asdict(result)}))
        os.replace(temporary, file)
    return result


def versions(device: torch.device) -> dict[str, Any]:
    """Device, library versions and flags that may change low bits, JSON-ready."""
    cuda = device.type == "cuda"
    return {
        "device_name": torch.cuda.get_device_name(device) if cuda else "cpu",
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version() if cuda else None,
        "diffsynth": metadata.version("diffsynth"),
        "cudnn_allow_tf32": True if cuda else None,
        "matmul_allow_tf32": False if cuda else None,
        "cudnn_benchmark": False if cuda else None,
        "cpu_capability": None if cuda else torch.backends.cpu.get_cpu_capability(),
        "cpu_name": None if cuda else _cpu_name(),
    }


@functools.cache
def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor()
    return platform.processor() or platform.machine()


def _measure(exact: Encode, fast: Encode, frames: torch.Tensor) -> SelfCheck:
    shape = tuple(frames.shape)
    true = exact(frames)
    try:
        tried = fast(frames)
    except torch.OutOfMemoryError as e:
        return SelfCheck(None, ENCODER_REL_L2, shape, f"Out of memory: {e}")
    error, size = (tried - true).double().norm(), true.double().norm()
    value = float(error / size) if size else float(error)
    return SelfCheck(value if value == value and value != float("inf") else None, ENCODER_REL_L2, shape, "")
