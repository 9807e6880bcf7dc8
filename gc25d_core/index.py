"""The clip index: the rows of every run that is complete on disk, in clip order, as json lines and as parquet.

The index follows the disk. `index_state_hash` says in milliseconds whether rows, faults or the list of runs differ from
what the last index was built from (`index_is_stale`), so that nothing has to be told that something changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gc25d_core.errors import Fault, OutputError
from gc25d_core.faults import fault_key, read_accepted, read_faults
from gc25d_core.index_parquet import parquet_index_hash, parquet_table, write_table
from gc25d_core.names import split_of
from gc25d_core.outputs.content import bytes_hash, json_hash
from gc25d_core.outputs.publish import json_bytes, read_json, read_jsonl
from gc25d_core.outputs.ready import building
from gc25d_core.plan import RunPlan, read_plan
from gc25d_core.rows import (
    SOURCE_ERROR,
    Row,
    decode_rows,
    encode_rows,
    faulty_clips,
    planned_fields,
)
from gc25d_core.settings import Settings
from gc25d_core.source import bad_run_folders, list_runs


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What the index knows of one run."""

    run: str
    complete: bool
    """Every planned clip has a row or a fault; only such runs are in the index."""
    why: str
    """Why it is not complete; "" if it is."""
    vanished: bool
    """Rows on disk, source gone. Its rows stay in the index until a person removes its files."""
    planned: int = 0
    rows: int = 0
    accepted: int = 0
    faults: int = 0
    """Clips (and run-level faults, counted as one) that nobody has accepted."""
    missing: int = 0
    has_ext: int = 0
    has_ext_rule_differs: int = 0
    """Clips where the replaced process, which tested block s//4+26 only, would have said otherwise."""
    look_changes: int = 0
    family: str = ""
    split: str = ""
    state: str | None = None
    """Hash of the run's plan, rows and faults on disk, null without rows."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The index as it is on disk now."""

    runs_total: int
    """Runs of the source and vanished ones."""
    runs_complete: int
    runs: dict[str, RunTotals]
    clips: int
    faults: int
    """All faults listed in `faults.jsonl`."""
    faults_open: int
    """Those that nobody has accepted."""
    clips_hash: str
    """xxh3_128 of the bytes of `clips.jsonl`."""
    written: bool
    """Whether anything on disk changed."""

    @property
    def incomplete(self) -> dict[str, str]:
        """Run to reason."""
        return {name: r.why for name, r in self.runs.items() if not r.complete}

    @property
    def vanished(self) -> list[str]:
        return [name for name, r in self.runs.items() if r.vanished]

    def summary(self) -> str:
        """One line for people."""
        gone = f", {len(self.vanished)} vanished from the source" if self.vanished else ""
        return f"{self.clips} clips of {self.runs_complete} of {self.runs_total} runs, {self.faults_open} open faults{gone}"


def runs_with_rows(settings: Settings) -> list[str]:
    """Runs that have a rows file on disk, sorted."""
    folder = settings.paths.rows("x").parent
    return sorted(p.stem for p in folder.glob("*.jsonl")) if folder.is_dir() else []


def rows_state(settings: Settings) -> dict[str, str]:
    """Hash of the plan, rows and faults on disk of each run that has rows. Reads small files only."""
    return {run: _run_state(settings, run, settings.paths.rows(run).read_bytes()) for run in runs_with_rows(settings)}


def _run_state(settings: Settings, run: str, rows: bytes) -> str:
    path = settings.paths.plan(run)
    plan = path.read_bytes() if path.is_file() else b""
    return json_hash([bytes_hash(plan), bytes_hash(rows), [f.to_json() for f in read_faults(settings, run)]])


def index_state_hash(settings: Settings) -> str:
    """One hash over everything the index is built from: plans, rows, faults, acceptances, the list of runs."""
    return _state_hash(settings, rows_state(settings), list_runs(settings.src))


def _state_hash(settings: Settings, states: dict[str, str], runs: list[str]) -> str:
    accepted = [asdict(a) for _, a in sorted(read_accepted(settings).items())]
    return json_hash([states, runs, accepted, [f.to_json() for f in bad_run_folders(settings.src)]])


def index_is_stale(settings: Settings) -> bool:
    """Whether the disk differs from what the last index was built from, or an index file is lost or damaged."""
    paths = settings.paths
    try:
        last = read_json(paths.runs_json)
        if not isinstance(last, dict) or last.get("state") != index_state_hash(settings):
            return True
        found = {
            "clips_hash": bytes_hash(paths.clips_jsonl.read_bytes()),
            "parquet_hash": bytes_hash(paths.clips_parquet.read_bytes()),
        }
    except (ValueError, FileNotFoundError):
        return True
    unharmed = json_hash({k: v for k, v in last.items() if k != "hash"}) == last.get("hash")
    return not (unharmed and paths.faults_jsonl.is_file() and all(last.get(k) == v for k, v in found.items()))


def derived_is_current(settings: Settings, clips_hash: str) -> bool:
    """Whether pool and look change report are there, whole, and made from the index of this hash."""
    try:
        look = read_json(settings.paths.look_change)
        pool = read_jsonl(settings.paths.dmd_pool) if settings.paths.dmd_pool.is_file() else None
    except ValueError:
        return False
    if not isinstance(look, dict) or look.get("index_hash") != clips_hash or pool is None:
        return False
    return all(row.get("index_hash") == clips_hash for row in pool)


def build_index(settings: Settings) -> IndexReport:
    """Write `clips.jsonl`, `clips.parquet`, `faults.jsonl` and `runs.json` from the runs that are complete on disk.

    Files whose content would be the same are left alone, and READY with them.
    """
    source_runs = list_runs(settings.src)
    bad_folders = bad_run_folders(settings.src)
    accepted = set(read_accepted(settings))
    rows: list[Row] = []
    totals: dict[str, RunTotals] = {}
    faults: list[Fault] = []
    for run in sorted({*source_runs, *runs_with_rows(settings)}):
        total, run_rows, run_faults = _collect(settings, run, run not in source_runs, accepted)
        totals[run] = total
        faults += run_faults
        if total.complete:
            rows += run_rows
    faults = list(dict.fromkeys([*bad_folders, *faults]))
    states = {run: t.state for run, t in totals.items() if t.state is not None}
    clips = encode_rows(rows)
    report = IndexReport(
        len(totals), sum(t.complete for t in totals.values()), totals, len(rows), len(faults),
        sum(fault_key(f) not in accepted for f in faults), bytes_hash(clips), False,
    )  # fmt: skip
    written = _publish_index(settings, rows, clips, faults, report, _state_hash(settings, states, source_runs))
    return IndexReport(**{name: getattr(report, name) for name in IndexReport.__slots__} | {"written": written})


def _collect(
    settings: Settings, run: str, vanished: bool, accepted: set[tuple[str, str]]
) -> tuple[RunTotals, list[Row], tuple[Fault, ...]]:
    """Totals, rows and faults of one run as they are on disk."""
    faults = read_faults(settings, run)
    state = None
    try:
        data = settings.paths.rows(run).read_bytes()
        state = _run_state(settings, run, data)
        rows = decode_rows(data, str(settings.paths.rows(run)))
        plan = read_plan(settings, run)
    except (OutputError, FileNotFoundError) as e:
        why = "no rows yet" if isinstance(e, FileNotFoundError) else str(e)
        return RunTotals(run, False, why, vanished, state=state), [], faults
    faults = tuple(dict.fromkeys((*plan.faults, *faults)))
    faulty = faulty_clips(faults)
    why = incomplete_because(plan, rows, faulty)
    finished = [r for r in rows if r.drop_reason != SOURCE_ERROR]
    planned = {c.clip for c in plan.clips}
    totals = RunTotals(
        run, not why, why, vanished,
        planned=len(planned | faulty),
        rows=len(finished),
        accepted=len(rows) - len(finished),
        faults=len({fault_key(f) for f in faults} - accepted),
        missing=len(planned - {r.clip for r in rows} - faulty),
        has_ext=sum(r.has_ext for r in finished),
        has_ext_rule_differs=plan.ext_rule_differs,
        look_changes=sum(r.ext_look_change for r in finished),
        family=plan.info.family if plan.info is not None else "",
        split=split_of(run),
        state=state,
    )  # fmt: skip
    return totals, rows, faults


def incomplete_because(plan: RunPlan, rows: Iterable[Row], faulty: set[str]) -> str:
    """Why these rows do not stand for the whole plan; "" if they do."""
    wanted = {c.clip: c for c in plan.clips}
    got = {r.clip: r for r in rows}
    if missing := sorted(wanted.keys() - got.keys() - faulty):
        return f"{len(missing)} of {len(wanted)} clips are not finished, first {missing[0]}"
    if foreign := sorted(got.keys() - wanted.keys() - faulty):
        return f"rows of {len(foreign)} clips that the plan does not have, first {foreign[0]}; make the rows again"
    for clip, row in got.items():
        if clip in faulty and row.drop_reason != SOURCE_ERROR:
            return f"clip {clip} has a row and a fault; make the rows again"
        if clip in wanted and (wrong := [n for n, v in planned_fields(wanted[clip]).items() if getattr(row, n) != v]):
            return f"the row of clip {clip} is older than the plan ({', '.join(wrong)} differ); make the rows again"
    return ""


def _publish_index(
    settings: Settings, rows: list[Row], clips: bytes, faults: list[Fault], report: IndexReport, state: str
) -> bool:
    """Write what differs; `runs.json`, which vouches for the rest, last."""
    paths = settings.paths
    decisions = read_accepted(settings)
    reasons = {key: a.reason for key, a in decisions.items()}
    fault_rows = b"".join(json_bytes({**f.to_json(), "accepted": reasons.get(fault_key(f))}) + b"\n" for f in faults)
    runs: dict[str, Any] = {
        "clips": report.clips,
        "clips_hash": report.clips_hash,
        "faults": report.faults,
        "faults_open": report.faults_open,
        "has_ext_rule_differs": sum(t.has_ext_rule_differs for t in report.runs.values()),
        "incomplete": report.incomplete,
        "runs": {run: asdict(t) for run, t in report.runs.items()},
        "runs_complete": report.runs_complete,
        "runs_total": report.runs_total,
        "state": state,
        "vanished": report.vanished,
    }
    with building(settings) as build:
        changed = build.publish_changed(paths.clips_jsonl, clips)
        if not _parquet_is_current(settings, report.clips_hash):
            table = parquet_table(sorted(rows, key=lambda r: r.order), report.clips_hash)
            build.publish(paths.clips_parquet, lambda f: write_table(table, f))
            changed = True
        changed |= build.publish_changed(paths.faults_jsonl, fault_rows)
        build.sync()
        runs["parquet_hash"] = bytes_hash(paths.clips_parquet.read_bytes())
        runs["hash"] = json_hash(runs)
        text = json.dumps(runs, indent=2, sort_keys=True).encode() + b"\n"
        return build.publish_changed(paths.runs_json, text) or changed


def _parquet_is_current(settings: Settings, clips_hash: str) -> bool:
    """Whether the parquet file stands for these clips and holds the bytes that were written. Another pyarrow would write
    other bytes for the same rows, so it is not enough to write again and compare."""
    path = settings.paths.clips_parquet
    if parquet_index_hash(path) != clips_hash:
        return False
    try:
        last = read_json(settings.paths.runs_json)
    except ValueError:
        return False
    return isinstance(last, dict) and last.get("parquet_hash") == bytes_hash(path.read_bytes())


def read_index(settings: Settings) -> tuple[list[Row], str]:
    """Rows of `clips.jsonl` in clip order, and its hash; OutputError without an index."""
    path = settings.paths.clips_jsonl
    try:
        data = path.read_bytes()
    except FileNotFoundError as e:
        raise OutputError(f"{path}: there is no index yet; materialize clips_index") from e
    return decode_rows(data, str(path)), bytes_hash(data)


def count_by_family(rows: Iterable[Row]) -> dict[str, int]:
    """Rows by family, and "all"."""
    counts = Counter(r.family for r in rows)
    return {**dict(sorted(counts.items())), "all": sum(counts.values())}
