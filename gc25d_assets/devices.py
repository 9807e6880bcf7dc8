"""The GPUs this process may use, listed without importing torch.

`nvidia-smi` says what there is (MIG instances included); an inherited `CUDA_VISIBLE_DEVICES` mask says what of it is
ours. Devices are named by UUID from here on, so that a mask written for a step means the same in every process.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gc25d_core.errors import SystemFault

MASK = "CUDA_VISIBLE_DEVICES"
_GPU_LINE = re.compile(r"GPU (\d+): (.*) \(UUID: (GPU-[0-9A-Za-z-]+)\)")
_MIG_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)\s]+)\)")
_MIG_GIB = re.compile(r"\.(\d+)gb")


@dataclass(frozen=True, slots=True)
class Device:
    """One CUDA device: a GPU, or a MIG instance of one."""

    uuid: str
    name: str
    memory_gib: float
    """Total memory in GiB; 0.0 where unknown."""
    index: int
    """Index of the GPU (of the parent GPU for a MIG instance) as `nvidia-smi` counts."""

    @property
    def is_mig(self) -> bool:
        return self.uuid.startswith("MIG-")


def visible_devices(environ: Mapping[str, str] | None = None) -> list[Device]:
    """Devices this process may use: all that exist, cut down and ordered by the inherited mask.

    Raises:
        SystemFault: the mask names something that does not exist, or names a device twice.
    """
    environ = os.environ if environ is None else environ
    return apply_mask(existing_devices(), environ.get(MASK))


def existing_devices() -> list[Device]:
    """Every device of this machine, MIG instances in place of the GPUs they divide. Empty without an NVIDIA driver."""
    listing = _nvidia_smi("-L")
    if listing is None:
        return _from_nvml()
    memory = {}
    for line in (_nvidia_smi("--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits") or "").splitlines():
        uuid, _, mib = line.partition(",")
        memory[uuid.strip()] = float(mib) / 1024 if mib.strip().replace(".", "").isdigit() else 0.0
    return parse_listing(listing, memory)


def parse_listing(listing: str, memory_gib: Mapping[str, float]) -> list[Device]:
    """Devices of the text that `nvidia-smi -L` prints."""
    devices: list[Device] = []
    divided: set[str] = set()
    gpu: Device | None = None
    for line in listing.splitlines():
        if m := _GPU_LINE.match(line):
            gpu = Device(uuid=m[3], name=m[2], memory_gib=memory_gib.get(m[3], 0.0), index=int(m[1]))
            devices.append(gpu)
        elif (m := _MIG_LINE.match(line)) and gpu is not None:
            size = _MIG_GIB.search(m[1])
            divided.add(gpu.uuid)
            devices.append(Device(m[3], f"{gpu.name} MIG {m[1]}", float(size[1]) if size else 0.0, gpu.index))
    return [d for d in devices if d.uuid not in divided]


def apply_mask(devices: Sequence[Device], mask: str | None) -> list[Device]:
    """`devices` as a process under `CUDA_VISIBLE_DEVICES=mask` may use them, in the mask's order.

    The rules are CUDA's: unset means all; entries are indices or (abbreviated) UUIDs; the first entry below 0 ends the
    list; empty means none. Where CUDA would silently see fewer devices (an unknown or doubled entry), this is an error.
    """
    if mask is None:
        return list(devices)
    chosen: list[Device] = []
    for word in (w.strip() for w in mask.split(",")):
        if not word or word.startswith("-") or word.lower() in ("none", "void", "nodevfiles"):
            break
        device = _find(devices, word)
        if device is None:
            known = ", ".join(f"{d.index}={d.uuid}" for d in devices) or "none"
            raise SystemFault(f"{MASK}={mask!r}: there is no device {word!r}; the devices here are {known}")
        if device in chosen:
            raise SystemFault(f"{MASK}={mask!r} names {device.uuid} twice")
        chosen.append(device)
    return chosen


def _find(devices: Sequence[Device], word: str) -> Device | None:
    if word.isdigit():  # of a divided GPU, CUDA sees the first instance
        return next((d for d in devices if d.index == int(word)), None)
    found = [d for d in devices if d.uuid.startswith(word)]
    return found[0] if len(found) == 1 else None


def _nvidia_smi(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=False)
    except (FileNotFoundError, PermissionError):
        return None
    except subprocess.TimeoutExpired as e:
        raise SystemFault("nvidia-smi did not answer within 60 s: the driver hangs; look at `dmesg`") from e
    return done.stdout if done.returncode == 0 else None


def _from_nvml() -> list[Device]:
    """The same through NVML, for images that have the driver but not `nvidia-smi`. MIG instances are not listed here."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        devices = []
        for i in range(pynvml.nvmlDeviceGetCount()):
            h = pynvml.nvmlDeviceGetHandleByIndex(i)
            texts = [pynvml.nvmlDeviceGetUUID(h), pynvml.nvmlDeviceGetName(h)]
            uuid, name = (t.decode() if isinstance(t, bytes) else t for t in texts)
            devices.append(Device(uuid, name, pynvml.nvmlDeviceGetMemoryInfo(h).total / 2**30, i))
        return devices
    finally:
        pynvml.nvmlShutdown()
