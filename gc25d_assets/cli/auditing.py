"""What `gc25d audit` compares: every file on disk, the fingerprints it should carry, the rows, and Dagster's records."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gc25d_core.errors import OutputError, SourceError

if TYPE_CHECKING:
    from gc25d_core.plan import ClipPlan
    from gc25d_core.rows import Row
    from gc25d_core.settings import Settings
    from gc25d_core.source import RunSource

STATES = {
    "missing": "no file",
    "corrupt": "the file cannot be read, or holds other content than its row says",
    "stale": "made from another source, by other settings or by other code",
    "unrecorded": "finished on disk, but Dagster does not know",
    "fault": "the source is at fault, and nobody has accepted it",
}


@dataclass(frozen=True)
class Deviation:
    """One thing of a run that is not as it should be. `path` only for files."""

    run: str
    state: str
    what: str
    path: Path | None = None


def audit_run(settings: Settings, run: str) -> list[Deviation]:
    """Everything of one run that is missing, corrupt or stale on disk, read in full; and its open faults."""
    from gc25d_core.faults import fault_key, read_accepted, read_faults
    from gc25d_core.outputs.fingerprint import kinds_of
    from gc25d_core.plan import plan_source, read_plan
    from gc25d_core.rows import faulty_clips, read_rows
    from gc25d_core.source import open_run

    try:
        written = read_plan(settings, run)
        source = open_run(settings.src, run, cache=settings.paths.cache)
    except OutputError:
        return [Deviation(run, "missing", "no plan yet")]
    except SourceError as error:
        return [Deviation(run, "fault", str(error))]
    try:
        plan = plan_source(source, settings.size)
        faults = dict.fromkeys([*plan.faults, *read_faults(settings, run)])
        accepted = read_accepted(settings)
        found = [Deviation(run, "fault", str(f)) for f in faults if fault_key(f) not in accepted]
        if written.clips != plan.clips:
            found.append(Deviation(run, "stale", "the plan: the source has changed", settings.paths.plan(run)))
        try:
            rows = {row.clip: row for row in read_rows(settings.paths, run)}
        except OutputError as error:
            rows = {}
            found.append(Deviation(run, "missing", str(error), settings.paths.rows(run)))
        faulty = faulty_clips(faults)
        for clip in plan.clips:
            if clip.clip not in faulty:
                found += [
                    d
                    for kind in kinds_of(clip)
                    if (d := _audit_file(settings, source, clip, kind, rows.get(clip.clip)))
                ]
        return found
    except SourceError as error:
        return [Deviation(run, "fault", str(error))]
    finally:
        source.close()


def _audit_file(settings: Settings, source: RunSource, clip: ClipPlan, kind: str, row: Row | None) -> Deviation | None:
    from gc25d_core.outputs.files import READERS
    from gc25d_core.outputs.fingerprint import fingerprint

    path = settings.paths.clip(kind, clip.clip)
    if not path.exists():
        return Deviation(clip.run, "missing", f"{kind} of {clip.clip}", path)
    try:
        file: Any = READERS[kind](path)  # type: ignore[operator]
    except OutputError as error:
        return Deviation(clip.run, "corrupt", str(error), path)
    if file.provenance.get("fingerprint") != fingerprint(kind, settings, source, clip):
        return Deviation(clip.run, "stale", f"{kind} of {clip.clip}", path)
    if row is not None and kind in row.outputs and row.outputs[kind].hash != file.content_hash:
        return Deviation(clip.run, "corrupt", f"{kind} of {clip.clip}: not the content its row names", path)
    return None


def audit_runs(settings: Settings, runs: Sequence[str], recorded: set[str]) -> list[Deviation]:
    """All deviations of these runs, spread over `settings.workers` processes; `recorded`: finished as Dagster knows it."""
    from gc25d_core.verify.jobs import run_jobs

    results = dict(run_jobs([(audit_run, (settings, run)) for run in runs], settings.workers))
    found = [deviation for i in range(len(runs)) for deviation in results[i]]
    broken = {deviation.run for deviation in found}
    unrecorded = [run for run in runs if run not in recorded and run not in broken]
    return [*found, *(Deviation(run, "unrecorded", "no materialization of every asset") for run in unrecorded)]


def set_aside(settings: Settings, deviations: Sequence[Deviation]) -> Path | None:
    """Moves corrupt files into a folder of their own, so that a build makes them again; the folder, if there were any."""
    corrupt = [d.path for d in deviations if d.state == "corrupt" and d.path is not None]
    if not corrupt:
        return None
    folder = settings.out / "set_aside" / time.strftime("%Y%m%d-%H%M%S")
    for path in corrupt:
        target = folder / path.relative_to(settings.out)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, target)
    return folder
