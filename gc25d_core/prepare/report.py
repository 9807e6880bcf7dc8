"""What a step tells its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gc25d_core.errors import Fault


@dataclass(frozen=True, slots=True)
class Progress:
    """One clip is done."""

    step: str
    run: str
    clip: str
    done: int
    planned: int
    outcome: str
    """`made`, `skipped` or `failed`."""


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class StepReport:
    """The outcome of one step on one run. planned = made + skipped + failed, asserted."""

    run: str
    step: str
    planned: int
    made: int
    skipped: int
    failed: int
    faults: tuple[Fault, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by what it went to: total, starting, waiting for data, encoding, writing."""
    bytes_written: int = 0
    fingerprint: str = ""
    """Digest over the fingerprints of the run's clips."""
    removed: int = 0
    """Files that no longer belonged and were unlinked."""
    made_by_kind: dict[str, int] = field(default_factory=dict)
    precision_used: str | None = None
    fallback_exact: int = 0
    """Clips for which `fast` was asked and `exact` was used."""

    def __post_init__(self) -> None:
        if self.planned != self.made + self.skipped + self.failed:
            raise AssertionError(
                f"{self.step} of run {self.run}: planned {self.planned} is not made {self.made} + skipped {self.skipped} + failed {self.failed}"
            )

    @property
    def sentence(self) -> str:
        """`skipped 50, made 0 (finished before; set force to redo)`."""
        hint = (
            " (finished before: nothing to do; set `force: true` in the run configuration to redo)"
            if self.skipped and not self.made
            else ""
        )
        failed = f", failed {self.failed}" if self.failed else ""
        return f"skipped {self.skipped}, made {self.made}{failed}{hint}"
