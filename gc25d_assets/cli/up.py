"""`gc25d up`: the Dagster UI and daemon for one source and data set, in the foreground."""

from __future__ import annotations

import time

import click

from gc25d_assets.cli.options import given_options, open_project, settings_options

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command("up")
@settings_options
@click.option(
    "--port", default=3000, show_default=True, type=click.IntRange(0, 65535), help="Port of the UI. 0: any free port."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.pass_context
def up_command(ctx: click.Context, port: int, host: str) -> None:
    """UI and daemon for one source and data set.

    Registers the runs as partitions, sets the limit of the GPU pool, serves until Ctrl-C or SIGTERM. Then runs in
    progress are cancelled and every process it started is gone; what is published stays, and a backfill of the same
    partitions goes on where it stopped.
    """
    from gc25d_assets.cli.session import own_session
    from gc25d_assets.cli.stopping import Stopped

    project = open_project(given_options(ctx))
    if host not in _LOOPBACK:
        click.echo(
            f"warning: listening on {host}. There is no authentication: whoever reaches this port can launch and cancel "
            "runs and read their logs. Prefer an SSH tunnel to the default, 127.0.0.1.",
            err=True,
        )
    try:
        with own_session(project, "up", host=host, port=port) as session:
            click.echo(f"\nUI        {session.url}")
            click.echo(
                "to do     Assets > select the group `run` > Materialize all > all partitions; index and reports "
                "follow by themselves.\n"
                f"          Or, in another terminal: gc25d build{project.flags}\n"
                "stop      Ctrl-C or SIGTERM"
            )
            while True:
                session.check()
                time.sleep(0.5)
    except Stopped:
        click.echo(f"stopped; what is finished stays. To go on: gc25d up{project.flags}")
        raise
