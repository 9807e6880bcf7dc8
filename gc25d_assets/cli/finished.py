"""Which runs need no work: every file there, opening, made from this source with these settings, and indexed.

Decided by the disk alone, cheapest question first, so that a build of a new data set loses no time here. What Dagster knows
is asked beside it (`instance.materialized_runs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gc25d_core.errors import OutputError, SourceError

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

_POOL_FROM = 16  # runs; below, starting processes costs more than it gains


def finished_runs(settings: Settings, runs: Sequence[str]) -> list[str]:
    """Those of `runs` that are finished on disk, in the given order."""
    from gc25d_core.verify.jobs import run_jobs

    workers = settings.workers if len(runs) >= _POOL_FROM else 1
    answers = dict(run_jobs([(is_finished_run, (settings, run)) for run in runs], workers))
    return [run for i, run in enumerate(runs) if answers[i]]


def is_finished_run(settings: Settings, run: str) -> bool:
    """Whether a build of this run would make nothing. A fault that nobody has accepted is unfinished work."""
    from gc25d_core.faults import fault_key, read_accepted, read_faults
    from gc25d_core.index import incomplete_because
    from gc25d_core.outputs.fingerprint import fingerprint, is_finished, kinds_of
    from gc25d_core.plan import plan_source
    from gc25d_core.rows import faulty_clips, read_rows
    from gc25d_core.source import open_run

    paths = settings.paths
    accepted = read_accepted(settings)
    faults = read_faults(settings, run)
    if any(fault_key(fault) not in accepted for fault in faults):
        return False
    try:
        rows = read_rows(paths, run)
        if not all((paths.out / o.path).is_file() for row in rows for o in row.outputs.values()):
            return False
        source = open_run(settings.src, run, cache=paths.cache)
    except SourceError:
        return bool(faults)  # all accepted: a person decided that the run stays out
    except OutputError:
        return False
    try:
        plan = plan_source(source, settings.size)
        if any(fault_key(fault) not in accepted for fault in plan.faults):
            return False
        faulty = faulty_clips([*plan.faults, *faults])
        if incomplete_because(plan, rows, faulty):
            return False
        return all(
            is_finished(paths.clip(kind, clip.clip), fingerprint(kind, settings, source, clip))
            for clip in plan.clips
            if clip.clip not in faulty
            for kind in kinds_of(clip)
        )
    except SourceError:
        return False
    finally:
        source.close()
