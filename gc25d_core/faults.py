"""Faults of the source as files: what the steps found in a run, and which of them a person has accepted.

A step writes `index/faults/<run>.<step>.jsonl`; a person's decisions are in `index/accepted_faults.jsonl`. An accepted
fault stays listed, and its clip gets a row without files; it only stops standing in the way of READY.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from gc25d_core.errors import DamagedFile, Fault
from gc25d_core.outputs.publish import publish_jsonl, read_jsonl, sync_folder
from gc25d_core.settings import Settings
from gc25d_core.source import bad_run_folders

STEPS = ("plan", "conditions", "latents")
"""The steps that record faults, in the order in which they run."""
WHOLE_RUN = "*"
"""In place of a clip's name: the run's faults that belong to no clip."""


@dataclass(frozen=True, slots=True)
class AcceptedFault:
    """A person's decision that a clip (or, with clip `*`, what is wrong with the run as a whole) stays out."""

    run: str
    clip: str
    reason: str
    who: str
    when: str
    """ISO 8601, UTC."""


def fault_key(fault: Fault) -> tuple[str, str]:
    """(run, clip or `*`): what an acceptance names."""
    return fault.run, fault.clip or WHOLE_RUN


def read_faults(settings: Settings, run: str) -> tuple[Fault, ...]:
    """Every fault that the steps recorded for `run`, each once, in the order of the steps."""
    rows = (row for step in STEPS for row in read_jsonl(settings.paths.faults(run, step)))
    return tuple(dict.fromkeys(Fault.from_json(row) for row in rows))


def read_accepted(settings: Settings) -> dict[tuple[str, str], AcceptedFault]:
    """Accepted faults by (run, clip); the latest decision about a clip counts."""
    rows = read_jsonl(settings.paths.accepted_faults)
    try:
        return {(r["run"], r["clip"]): AcceptedFault(**{k: r[k] for k in AcceptedFault.__slots__}) for r in rows}
    except KeyError as e:
        path = settings.paths.accepted_faults
        raise DamagedFile(
            f"{path} is damaged (a line has no field {e}); mend that line, or delete it and accept again"
        ) from e


def accept_fault(settings: Settings, run: str, clip: str, *, reason: str, who: str) -> AcceptedFault:
    """Record that the fault of `clip` in `run` is accepted (`*`: the run's faults that belong to no clip).

    The row appears when the run's rows are made again (`rows.index_run`).

    Raises:
        ValueError: no reason, or that clip has no fault; the message lists those that have.
    """
    if not reason.strip():
        raise ValueError("accepting a fault needs a reason: whoever reads the index later will ask for it")
    known = [*read_faults(settings, run), *(f for f in bad_run_folders(settings.src) if f.run == run)]
    found = sorted({c for _, c in map(fault_key, known)})
    if clip not in found:
        have = ", ".join(found) or "none"
        raise ValueError(f"run {run} has no fault for clip {clip!r}; clips of it with a fault: {have}")
    decision = AcceptedFault(run, clip, reason.strip(), who, datetime.now(UTC).isoformat(timespec="seconds"))
    path = settings.paths.accepted_faults
    with _exclusive(settings, "accepted_faults"):
        publish_jsonl(path, [*read_jsonl(path), asdict(decision)])
        sync_folder(path.parent)
    return decision


@contextmanager
def _exclusive(settings: Settings, name: str) -> Iterator[None]:
    """Two people accepting at once lose neither decision."""
    settings.paths.locks.mkdir(parents=True, exist_ok=True)
    fd = os.open(settings.paths.locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
