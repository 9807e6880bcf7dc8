"""How busy each GPU is over a stretch of time, as nvidia-smi samples it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_QUERY = ["nvidia-smi", "--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading."""

    time: float
    """Unix seconds."""
    gpu: int
    busy: float
    """Share of the sampling period in which a kernel ran, 0..1."""
    memory_mib: float


@dataclass
class BusySampler:
    """Samples until the block ends: `with BusySampler() as sampler: ...`."""

    interval_ms: int = 100
    samples: list[Sample] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> BusySampler:
        self._process = subprocess.Popen([*_QUERY, "-lms", str(self.interval_ms)], stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            fields = [x.strip() for x in line.split(",")]
            if len(fields) == 3 and all(x.replace(".", "").isdigit() for x in fields):
                self.samples.append(Sample(time.time(), int(fields[0]), float(fields[1]) / 100, float(fields[2])))

    def __exit__(self, *_: object) -> None:
        assert self._process is not None and self._thread is not None
        self._process.terminate()
        self._process.wait()
        self._thread.join(timeout=5)

    def busy(self, begin: float, end: float) -> dict[int, float]:
        """Mean share by GPU over the samples from `begin` to `end` (Unix seconds)."""
        return busy_share(self.samples, begin, end)


def busy_share(samples: Sequence[Sample], begin: float, end: float) -> dict[int, float]:
    """Mean of `busy` by GPU over the samples between two times."""
    found: dict[int, list[float]] = {}
    for s in samples:
        if begin <= s.time <= end:
            found.setdefault(s.gpu, []).append(s.busy)
    return {gpu: sum(v) / len(v) for gpu, v in sorted(found.items())}
