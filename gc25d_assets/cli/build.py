"""`gc25d build`: one Dagster run for each run of the source that needs work, then index and reports, then a summary."""

from __future__ import annotations

import click

from gc25d_assets.cli.options import given_options, open_project, settings_options


@click.command("build")
@settings_options
@click.option("--runs", metavar="A,B", help="Only these runs. Default: all of the source.")
@click.option("--force", is_flag=True, help="Make every clip again, finished or not.")
@click.option("--reconfigure", is_flag=True, help="Go on with settings other than those the data set was made with.")
@click.pass_context
def build_command(ctx: click.Context, runs: str | None, force: bool, reconfigure: bool) -> None:
    """Materialize the graph for all or some runs; run again to resume.

    Works on the servers of a running `gc25d up` for this data set, else starts its own until it is done. Runs that are
    finished on disk and in Dagster are not launched; within a run, finished clips are skipped. Faults of the source
    do not stop the good clips: they are listed at the end, and the exit code is 1.
    """
    from gc25d_assets.cli.building import build
    from gc25d_assets.cli.stopping import Stopped

    project = open_project(given_options(ctx))
    named = None if runs is None else [name.strip() for name in runs.split(",") if name.strip()]
    try:
        failures = build(project, named, force=force, reconfigure=reconfigure)
    except Stopped:
        click.echo(f"stopped; every finished clip stays. To resume: gc25d build{project.flags}")
        raise
    ctx.exit(1 if failures else 0)
