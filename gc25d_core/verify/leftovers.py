"""Files that do not belong: temporaries of writers that died, and names that no clip or run of the data set has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gc25d_core.faults import STEPS
from gc25d_core.outputs.publish import is_provably_dead, is_temporary
from gc25d_core.paths import KINDS, SUFFIX
from gc25d_core.settings import Settings
from gc25d_core.verify.results import CheckResult, Findings


def leftovers(
    settings: Settings, clips: Mapping[str, Mapping[str, bool]], *, every_run: bool = False
) -> list[CheckResult]:
    """Two warnings: temporaries, and foreign files.

    Args:
        clips: for each run its clips by name, those with faults included, and whether they have an extension.
        every_run: `clips` names every run, so what belongs to none of them is foreign; else only the files of these runs
            are looked at.
    """
    temporaries = Findings("temporaries", "no temporary of the publish rule is left", "warn")
    foreign = Findings("foreign_files", "no file that belongs to no clip, run or report", "warn")
    owners = {clip: (run, has_ext) for run, names in clips.items() for clip, has_ext in names.items()}
    per_run = {f"{run}.jsonl": run for run in clips}
    faults = {f"{run}.{step}.jsonl": run for run in clips for step in STEPS}
    known: list[tuple[Path, Mapping[str, str]]] = [
        *((settings.out / kind, _files(kind, owners)) for kind in KINDS),
        (settings.paths.plan("x").parent, per_run),
        (settings.paths.rows("x").parent, per_run),
        (settings.paths.faults("x", "plan").parent, faults),
    ]
    for folder, names in known:
        for name in _names(folder):
            run = names.get(name) or _run_in(name, clips)
            if run is None and not every_run:
                continue
            _judge(temporaries, foreign, settings, folder / name, run, name in names)
    if every_run:
        for folder in (settings.out, settings.paths.index):
            for name in _names(folder):
                if is_temporary(name):
                    _judge(temporaries, foreign, settings, folder / name, None, True)
    return [f.result() for f in (temporaries, foreign)]


def _files(kind: str, owners: Mapping[str, tuple[str, bool]]) -> dict[str, str]:
    """Names of the files of one kind that may be there, with their run."""
    return {f"{clip}{SUFFIX[kind]}": run for clip, (run, has_ext) in owners.items() if has_ext or kind != "cond_ext"}


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if e.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _run_in(name: str, clips: Mapping[str, Mapping[str, bool]]) -> str | None:
    """The run whose name stands in a file's name."""
    parts = name.split("__")
    if len(parts) == 3 and parts[1] in clips:
        return parts[1]
    return next((run for run in clips if f"__{run}__" in name or name.startswith(f"{run}.")), None)


def _judge(
    temporaries: Findings, foreign: Findings, settings: Settings, path: Path, run: str | None, known: bool
) -> None:
    where = path.relative_to(settings.out).as_posix()
    if is_temporary(path.name):
        state = "its writer is dead, it may be deleted" if is_provably_dead(path.name) else "its writer may still live"
        temporaries.add(f"{where}: {state}", run=run)
    elif not known:
        foreign.add(f"{where}: belongs to no clip of the plan; move it away", run=run)
