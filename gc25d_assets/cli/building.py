"""What `gc25d build` and `gc25d demo` do: decide which runs need work, launch them, follow them, then index and reports."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from gc25d_assets.cli.finished import finished_runs
from gc25d_assets.cli.follow import Board, ClipCounter, follow, open_board
from gc25d_assets.cli.graphql import BUILD_TAG, UNFINISHED, GraphQLError, RunState
from gc25d_assets.cli.instance import materialized_runs, open_instance, register_runs
from gc25d_assets.cli.options import Project
from gc25d_assets.cli.session import Session, any_session, cancel_runs
from gc25d_assets.cli.stopping import Stopped

if TYPE_CHECKING:
    from gc25d_core.errors import Fault
    from gc25d_core.settings import Settings

RUNS_JOB = "build_runs"
REPORTS_JOB = "build_reports"
_INDEX_JOBS = (REPORTS_JOB, "build_index")  # the sensor launches either
_FORCED_OPS = ("prepare_conditions", "gc25d__latents")
RUN_ASSETS = ("clip_plan", "cond", "cond_ext", "meta", "latents", "run_index")
_MOST_LINES, _MOST_REASONS = 20, 3


def build(
    project: Project, named: Sequence[str] | None, *, force: bool = False, reconfigure: bool = False
) -> list[str]:
    """Builds these runs (None: all), then index and reports; one line for each thing that failed.

    Raises:
        SettingsError: unknown runs, or settings the data set was not made with.
    """
    settings = project.settings
    settings.check_prep_args(reconfigure=reconfigure)
    runs = choose_runs(settings, named)
    todo = runs if force else _unfinished(project, runs)
    if len(todo) < len(runs):
        click.echo(f"skipped {len(runs) - len(todo)} runs, finished")
    failures: list[str] = []
    begun = time.time()
    if todo or _reports_are_stale(settings):
        with any_session(project, "build") as session, open_board() as board:
            click.echo(f"UI        {session.url}")
            failures += _build_runs(session, project, todo, force=force, board=board)
            failures += _build_reports(session, settings, board, built=bool(todo))
    failures += _open_faults(settings, runs, everything=named is None)
    failures += _failed_checks(settings)
    if todo and settings.paths.clips_jsonl.is_file():
        from gc25d_core.errors import OutputError, SystemFault
        from gc25d_core.prep_stats import write_prep_stats

        try:
            click.echo(f"speed     {write_prep_stats(settings, begun)}")
        except (OutputError, SystemFault) as error:
            failures.append(str(error))
    _summarize(settings, failures)
    return failures


def choose_runs(settings: Settings, named: Sequence[str] | None) -> list[str]:
    """The named runs, or all of the source, sorted. SettingsError lists those the source does not have."""
    from gc25d_core.errors import SettingsError
    from gc25d_core.source import list_runs

    known = list_runs(settings.src)
    if not known:
        raise SettingsError([f"source {settings.src} has no runs: a run is a folder with a run.json"])
    if named is None:
        return known
    if unknown := sorted(set(named) - set(known)):
        raise SettingsError([f"run {name}: the source has no such run" for name in unknown])
    return sorted(set(named))


def _unfinished(project: Project, runs: Sequence[str]) -> list[str]:
    instance = open_instance(project.home)
    register_runs(instance, runs)
    known = materialized_runs(instance, [("gc25d", name) for name in RUN_ASSETS])
    finished = set(finished_runs(project.settings, [run for run in runs if run in known]))
    return [run for run in runs if run not in finished]


def _build_runs(session: Session, project: Project, todo: Sequence[str], *, force: bool, board: Board) -> list[str]:
    """Launches what is not already under way, and follows all of it."""
    if not todo:
        return []
    client = session.client
    started = time.time()
    under_way = {} if force else {r.partition: r for r in client.runs(job=RUNS_JOB, statuses=UNFINISHED)}
    adopted = [under_way[run] for run in todo if run in under_way]
    fresh = [run for run in todo if run not in under_way]
    if adopted:
        click.echo(f"{len(adopted)} runs are under way already and are followed")
    tags = {BUILD_TAG: uuid.uuid4().hex[:8]}
    try:
        launched = client.launch(RUNS_JOB, fresh, tags=tags, config=_force_config() if force else {})
        click.echo(f"launched {len(launched)} runs ({BUILD_TAG}={tags[BUILD_TAG]})")
        counter = ClipCounter.of(project.settings, todo, since=started if force else None)
        states = follow(session, [*adopted, *launched], board, counter)
    except Stopped:
        if not session.own:  # our own servers cancel everything as they stop
            cancel_runs(client, [run.run_id for run in client.runs(tags=tags) if not run.finished])
        raise
    return _failed(session, states)


def _build_reports(session: Session, settings: Settings, board: Board, *, built: bool) -> list[str]:
    """Index and reports, by the sensor's run where it was quicker, else by a run of our own.

    Where runs were built and there is no READY, the verification looks again: an index with the same rows may stand on
    files that have been mended.
    """
    client = session.client
    while under_way := [run for job in _INDEX_JOBS for run in client.runs(job=job, statuses=UNFINISHED)]:
        follow(session, under_way, board)
    if not _reports_are_stale(settings) and (settings.paths.ready.is_file() or not built):
        return []
    launched = client.launch(REPORTS_JOB, [None], tags={}, config={})
    try:
        return _failed(session, follow(session, launched, board))
    except Stopped:
        if not session.own:
            cancel_runs(client, [run.run_id for run in launched])
        raise


def _force_config() -> dict[str, Any]:
    return {"ops": {op: {"config": {"force": True}} for op in _FORCED_OPS}}


def _reports_are_stale(settings: Settings) -> bool:
    """Whether index, verification, look change report or pool do not speak of what is on disk now."""
    from gc25d_core.index import derived_is_current, index_is_stale
    from gc25d_core.outputs.publish import read_json

    paths = settings.paths
    if index_is_stale(settings):
        return True
    clips_hash = read_json(paths.runs_json)["clips_hash"]
    try:
        report = read_json(paths.verify_report) or {}
    except ValueError:
        return True
    if not derived_is_current(settings, clips_hash) or report.get("clips_hash") != clips_hash:
        return True
    return bool(report.get("ready")) != paths.ready.is_file()


def _failed(session: Session, states: Sequence[RunState]) -> list[str]:
    lines = []
    for state in sorted(states, key=lambda s: s.partition or ""):
        name = f"run {state.partition}" if state.partition else "index and reports"
        if state.status == "CANCELED":
            lines.append(f"{name}: cancelled")
        elif state.status == "FAILURE":
            try:
                why = session.client.why_failed(state.run_id)
            except GraphQLError as error:
                why = str(error)
            lines.append(f"{name}: {why} (Dagster run {state.run_id[:8]})")
    return lines


def _open_faults(settings: Settings, runs: Sequence[str], *, everything: bool) -> list[str]:
    """Faults of the source that nobody has accepted, of these runs; with `everything`, of folders that are no runs too."""
    from gc25d_core.faults import fault_key, read_accepted, read_faults
    from gc25d_core.source import bad_run_folders

    accepted = read_accepted(settings)
    found: list[Fault] = [f for run in runs for f in read_faults(settings, run)]
    if everything:
        found = [*bad_run_folders(settings.src), *found]
    return [str(fault) for fault in dict.fromkeys(found) if fault_key(fault) not in accepted]


def _failed_checks(settings: Settings) -> list[str]:
    """The failures of the verification on disk."""
    from gc25d_core.outputs.publish import read_json

    report = read_json(settings.paths.verify_report) or {"checks": []}
    failed = [c for c in report["checks"] if not c["passed"] and c["severity"] == "error"]
    return [f"verification, {check['name']}: {check['message']}" for check in failed]


def _summarize(settings: Settings, failures: Sequence[str]) -> None:
    from gc25d_core.outputs.publish import read_json

    totals: Mapping[str, Any] = read_json(settings.paths.runs_json) or {}
    if totals:
        click.echo(
            f"index     {totals['clips']} clips of {totals['runs_complete']} of {totals['runs_total']} runs, "
            f"{totals['faults_open']} open faults"
        )
    if settings.paths.ready.is_file():
        click.echo(f"READY     {settings.paths.ready}: verified without failure")
    else:
        why = (read_json(settings.paths.verify_report) or {}).get("not_ready_because") or ["not verified yet"]
        click.echo(f"READY     not written: {'; '.join(why[:_MOST_REASONS])}")
    if failures:
        click.echo(f"failed    {len(failures)}", err=True)
        for line in failures[:_MOST_LINES]:
            click.echo(f"  {line}", err=True)
        if len(failures) > _MOST_LINES:
            click.echo(
                f"  ... and {len(failures) - _MOST_LINES} more; all faults: {settings.paths.faults_jsonl}", err=True
            )
