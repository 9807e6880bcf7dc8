"""The whole verification: every check, `verify_report.json`, and READY or the reason why not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import gc25d_core
from gc25d_core.errors import OutputError, SettingsError
from gc25d_core.index import index_is_stale, read_index, runs_with_rows
from gc25d_core.outputs.content import bytes_hash, json_hash
from gc25d_core.outputs.fingerprint import kinds_of
from gc25d_core.outputs.publish import publish_json, read_json, sync_folder
from gc25d_core.outputs.ready import remove_ready, write_ready
from gc25d_core.plan import read_plan
from gc25d_core.rows import Row
from gc25d_core.settings import Settings
from gc25d_core.source import list_runs
from gc25d_core.verify.dataset import counts, index_checks, pool_check, state_checks
from gc25d_core.verify.jobs import Job, run_jobs
from gc25d_core.verify.leftovers import leftovers
from gc25d_core.verify.results import CheckResult, merge
from gc25d_core.verify.sampling import spot_rows
from gc25d_core.verify.spot_render import spot_render
from gc25d_core.verify.spot_source import spot_source
from gc25d_core.verify.spot_vae import default_spot_vae, spot_vae
from gc25d_core.verify.structural import clip_names, structural_run

ProgressCallback = Callable[[str, int, int], None]
"""(what, done, of how many)."""


@dataclass(frozen=True)
class VerifyReport:
    """What `verify_report.json` holds."""

    checks: tuple[CheckResult, ...]
    clips_hash: str | None
    """Of the `clips.jsonl` that was verified; null without an index."""
    runs_complete: int
    runs_total: int
    clips: int
    spot_clips: tuple[str, ...]
    vae_clips: tuple[str, ...]
    vae_rule: dict[str, str]
    """For each clip encoded anew, which rule it was compared by, and why."""
    ready: bool
    not_ready_because: tuple[str, ...]
    seconds: dict[str, float]

    @property
    def failures(self) -> list[CheckResult]:
        return [c for c in self.checks if c.failed]

    @property
    def warnings(self) -> list[CheckResult]:
        return [c for c in self.checks if c.warned]

    @property
    def passed(self) -> bool:
        """No check failed. A data set of some of the runs can pass; READY also needs all of them."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        return {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "code": gc25d_core.__version__,
            "passed": self.passed,
            "failures": len(self.failures),
            "warnings": len(self.warnings),
            "ready": self.ready,
            "not_ready_because": list(self.not_ready_because),
            "runs": f"{self.runs_complete} of {self.runs_total}",
            "clips": self.clips,
            "clips_hash": self.clips_hash,
            "spot_clips": list(self.spot_clips),
            "vae_clips": list(self.vae_clips),
            "vae_rule": self.vae_rule,
            "seconds": {k: round(v, 2) for k, v in self.seconds.items()},
            "checks": [c.to_json() for c in self.checks],
        }


def verify(
    settings: Settings,
    *,
    spot: int | None = None,
    spot_vae_clips: int | None = None,
    workers: int | None = None,
    write: bool = True,
    progress: ProgressCallback | None = None,
) -> VerifyReport:
    """Verify the data set as it is on disk.

    Args:
        spot: clips for the deep checks; None takes `settings.spot_clips`.
        spot_vae_clips: of those, clips that are also encoded anew; None takes 4 on a GPU and 1 on a CPU, 0 leaves the VAE out
            (READY is then withheld).
        workers: processes; None takes `settings.workers`.
        write: write `verify_report.json`, and READY or remove it.

    Raises:
        SettingsError: the source folder cannot be read.
        SystemFault: a worker was killed, or there is no GPU or VAE.
    """
    begun = time.perf_counter()
    say = progress or (lambda what, done, total: None)
    workers = settings.workers if workers is None else workers
    stamp = _stamp(settings)
    runs = sorted({*list_runs(settings.src), *runs_with_rows(settings)})
    planned = {run: _planned(settings, run) for run in runs}
    structural: list[Job[list[CheckResult]]] = [
        (partial(structural_run, scan=False), (settings, run)) for run, names in planned.items() if names is not None
    ]
    rows, clips_hash = _index(settings)
    seconds: dict[str, float] = {}

    results: list[CheckResult] = []
    results += merge(_run(structural, workers, say, "runs"))
    seconds["structural"] = time.perf_counter() - begun
    results += [*index_checks(settings, _complete(settings)), *state_checks(settings), pool_check(settings)]
    results += leftovers(settings, {run: names or {} for run, names in planned.items()}, every_run=True)

    at = time.perf_counter()
    spots = spot_rows(rows, settings.spot_clips if spot is None else spot)
    results += spot_checks(settings, spots, workers=workers, progress=progress)
    seconds["spot"] = time.perf_counter() - at

    at = time.perf_counter()
    encode = spots[: default_spot_vae(settings) if spot_vae_clips is None else spot_vae_clips]
    say("VAE", 0, len(encode))
    vae = spot_vae(settings, encode)
    say("VAE", len(encode), len(encode))
    results += [*vae, counts(settings)]
    seconds["vae"] = time.perf_counter() - at
    seconds["total"] = time.perf_counter() - begun

    complete, total = _n_of_m(settings)
    report = VerifyReport(
        tuple(results), clips_hash, complete, total, len(rows), tuple(r.clip for r in spots), tuple(r.clip for r in encode),
        next((c.figure.get("rule", {}) for c in vae if c.name == "spot_reencode"), {}), False, (), seconds,
    )  # fmt: skip
    return _conclude(settings, report, stamp, write)


def spot_checks(
    settings: Settings, rows: list[Row], *, workers: int = 1, progress: ProgressCallback | None = None
) -> list[CheckResult]:
    """The deep checks of some clips against the recording and of their metadata; the VAE apart (`spot_vae`)."""
    jobs: list[Job[list[CheckResult]]] = [
        (check, (settings, row)) for row in rows for check in (spot_source, spot_render)
    ]
    return merge(_run(jobs, workers, progress or (lambda what, done, total: None), "spot checks"))


def _run(jobs: list[Job[list[CheckResult]]], workers: int, say: ProgressCallback, what: str) -> list[CheckResult]:
    """Results of all jobs in the order of the jobs."""
    done: dict[int, list[CheckResult]] = {}
    say(what, 0, len(jobs))
    for i, result in run_jobs(jobs, workers):
        done[i] = result
        say(what, len(done), len(jobs))
    return [r for i in sorted(done) for r in done[i]]


def _planned(settings: Settings, run: str) -> dict[str, bool] | None:
    """Clips of a run; None where nothing of it was built yet, so that there is nothing to check."""
    if not settings.paths.plan(run).exists() and not settings.paths.rows(run).exists():
        return None
    try:
        return clip_names(read_plan(settings, run))
    except OutputError:
        return {}


def _index(settings: Settings) -> tuple[list[Row], str | None]:
    """Rows and hash of the index; a damaged or missing one is what `index_rows` reports."""
    try:
        return read_index(settings)
    except OutputError:
        return [], None


def _complete(settings: Settings) -> list[str]:
    try:
        runs = read_json(settings.paths.runs_json)
        return [name for name, r in runs["runs"].items() if r["complete"]]
    except (ValueError, KeyError, TypeError):
        return []


def _n_of_m(settings: Settings) -> tuple[int, int]:
    try:
        runs = read_json(settings.paths.runs_json)
        return int(runs["runs_complete"]), int(runs["runs_total"])
    except (ValueError, KeyError, TypeError):
        return 0, len(list_runs(settings.src))


def _conclude(settings: Settings, report: VerifyReport, stamp: str, write: bool) -> VerifyReport:
    """Write the report, and READY if everything allows it."""
    reasons = [f"{c.name}: {c.message}" for c in report.failures]
    reasons += [f"{c.name}: {c.message}" for c in report.warnings if c.name in ("runs_complete", "faults_accepted")]
    if report.clips_hash is None or not report.clips:
        reasons.append("there is no index, or it is empty")
    elif not report.vae_clips or not report.spot_clips:
        reasons.append("no clip was encoded anew: READY needs every kind of check")
    if write and not reasons:
        value = {
            "clips_hash": report.clips_hash,
            "runs": f"{report.runs_complete} of {report.runs_total}",
            "clips": report.clips,
            "spot_clips": len(report.spot_clips),
            "code": gc25d_core.__version__,
        }
        refused = write_ready(settings, value, lambda: _changed_since(settings, report.clips_hash, stamp))
        reasons += [refused] if refused is not None else []
    if write and reasons:
        remove_ready(settings)
    done = VerifyReport(**{**vars(report), "ready": write and not reasons, "not_ready_because": tuple(reasons)})
    if write:
        publish_json(settings.paths.verify_report, _finite(done.to_json()))
        sync_folder(settings.out)
    return done


def _changed_since(settings: Settings, clips_hash: str | None, stamp: str) -> str | None:
    """Why what was verified is no longer what lies there, None if it still is."""
    try:
        if bytes_hash(settings.paths.clips_jsonl.read_bytes()) != clips_hash or index_is_stale(settings):
            return "the index changed while it was verified; verify again"
    except (FileNotFoundError, SettingsError) as e:
        return f"the index or the source went away while it was verified ({e})"
    if _stamp(settings) != stamp:
        return "files of the data set changed while they were verified; verify again"
    return None


def _stamp(settings: Settings) -> str:
    """Digest of size, mtime and inode of every file that a plan asks for: whether anything was written meanwhile."""
    seen: list[Any] = []
    for run in runs_with_rows(settings):
        try:
            plan = read_plan(settings, run)
        except OutputError:
            continue
        for clip in plan.clips:
            for kind in kinds_of(clip):
                path = settings.paths.clip(kind, clip.clip)
                try:
                    s = path.stat()
                except FileNotFoundError:
                    continue
                seen.append([path.name, kind, s.st_size, s.st_mtime_ns, s.st_ino])
    return json_hash(seen)


def _finite(value: Any) -> Any:
    """Json has no NaN and no infinity (a perfect reconstruction has infinite PSNR): they are written as text."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value
