"""`gc25d audit`: the disk against the fingerprints and against Dagster's records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from gc25d_assets.cli.options import given_options, open_project, settings_options

if TYPE_CHECKING:
    from gc25d_assets.cli.auditing import Deviation
    from gc25d_core.settings import Settings

_MOST_LINES = 30


@click.command("audit")
@settings_options
@click.option("--runs", metavar="A,B", help="Only these runs. Default: all of the source.")
@click.option("--launch", is_flag=True, help="Set corrupt files aside and build the runs that need it.")
@click.pass_context
def audit_command(ctx: click.Context, runs: str | None, launch: bool) -> None:
    """Compare every file with its fingerprint, its row, and Dagster's records.

    Says what is missing, corrupt, stale or foreign, and which partitions to rematerialize. Reads every file in full.
    Exit code 1 where something deviates (with --launch: where something still does after the build).
    """
    from gc25d_assets.cli.auditing import audit_runs, set_aside
    from gc25d_assets.cli.building import RUN_ASSETS, build, choose_runs
    from gc25d_assets.cli.instance import materialized_runs, open_instance, vanished_runs

    project = open_project(given_options(ctx))
    settings = project.settings
    names = choose_runs(settings, None if runs is None else [n.strip() for n in runs.split(",") if n.strip()])
    instance = open_instance(project.home)
    recorded = materialized_runs(instance, [("gc25d", name) for name in RUN_ASSETS])
    found = audit_runs(settings, names, recorded)
    _print(settings, found)
    if runs is None:
        for run in vanished_runs(instance, names):
            click.echo(f"{run}: registered in Dagster, no longer in the source")
        _print_foreign(settings, names)
    affected = sorted({deviation.run for deviation in found})
    if not affected:
        click.echo(f"audit     {len(names)} runs: nothing to rematerialize")
        return
    listed = ",".join(affected)
    if not launch:
        click.echo(f"audit     rematerialize {len(affected)} partitions: gc25d build{project.flags} --runs {listed}")
        if any(deviation.state == "corrupt" for deviation in found):
            click.echo("          corrupt files are in the way of that: --launch sets them aside first")
        ctx.exit(1)
    if folder := set_aside(settings, found):
        click.echo(f"corrupt files were moved to {folder}")
    ctx.exit(1 if build(project, affected) else 0)


def _print(settings: Settings, found: list[Deviation]) -> None:
    from gc25d_assets.cli.auditing import STATES

    for state, count in Counter(deviation.state for deviation in found).items():
        click.echo(f"{state:10}{count} ({STATES[state]})")
    for deviation in found[:_MOST_LINES]:
        where = "" if deviation.path is None else f" [{deviation.path.relative_to(settings.out)}]"
        click.echo(f"  {deviation.run}: {deviation.state}: {deviation.what}{where}")
    if len(found) > _MOST_LINES:
        click.echo(f"  ... and {len(found) - _MOST_LINES} more")


def _print_foreign(settings: Settings, runs: list[str]) -> None:
    """Files that belong to nothing, and temporaries of writers that died."""
    from gc25d_core.errors import OutputError
    from gc25d_core.plan import read_plan
    from gc25d_core.verify.leftovers import leftovers
    from gc25d_core.verify.structural import clip_names

    clips: dict[str, dict[str, bool]] = {}
    for run in runs:
        try:
            clips[run] = clip_names(read_plan(settings, run))
        except OutputError:
            clips[run] = {}
    for result in leftovers(settings, clips, every_run=True):
        for finding in result.worst:
            click.echo(f"  foreign: {finding['what']}")
