"""What can go wrong, in two kinds: faults of the source (data) and faults of the system (machine).

A fault of the source belongs to one clip (or one run) and never stops the good clips: it is a value, `Fault`, that is
listed, counted and published. A fault of the system (disk full, out of memory, no GPU) stops the step with an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """One deviation of a recording from the source format, with everything needed to find and mend it.

    `kind` is a stable word for grouping (`member_missing`, `bad_ids`, ...); `what` is the sentence a person reads.
    """

    kind: str
    what: str
    run: str
    clip: str | None = None
    frame: int | None = None
    member: str | None = None
    shard: str | None = None
    offset: int | None = None
    got: str | None = None
    expected: str | None = None
    fix: str | None = None

    def __str__(self) -> str:
        where = [f"run {self.run}"]
        if self.clip is not None:
            where.append(f"clip {self.clip}")
        if self.frame is not None:
            where.append(f"frame {self.frame}")
        if self.member is not None:
            where.append(f"member {self.member}")
        if self.shard is not None:
            at = f" at byte {self.offset}" if self.offset is not None else ""
            where.append(f"shard {self.shard}{at}")
        parts = [f"{', '.join(where)}: {self.what}"]
        if self.got is not None:
            parts.append(f"got {self.got}")
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.fix is not None:
            parts.append(f"to do: {self.fix}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Fault:
        return cls(**{k: row.get(k) for k in cls.__dataclass_fields__})  # type: ignore[arg-type]


class SourceError(Exception):
    """The source deviates from its format. Carries every fault found, not just the first."""

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(f) for f in self.faults))

    def __reduce__(self) -> tuple[Any, ...]:  # crosses process borders
        return (SourceError, (self.faults,))


class SystemFault(RuntimeError):
    """The machine, not the data: disk full, no GPU, a worker killed. Stops the step; what is published stays."""


class SettingsError(ValueError):
    """One message with every mistake in the settings."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))

    def __reduce__(self) -> tuple[Any, ...]:
        return (SettingsError, (self.mistakes,))


class OutputError(RuntimeError):
    """A published file is missing, cut, of the wrong shape, or does not match its fingerprint."""


class DamagedFile(OutputError, ValueError):
    """A small json file cannot be read. Says which, and what to do."""
