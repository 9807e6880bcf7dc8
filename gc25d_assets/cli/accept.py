"""`gc25d accept`: a person's decision that a clip whose source is at fault stays out."""

from __future__ import annotations

import getpass
import os

import click

from gc25d_assets.cli.options import flags_of, given_options, settings_options, show_settings


@click.command("accept")
@settings_options
@click.argument("run")
@click.argument("clip")
@click.option("--reason", required=True, help="Why the clip may stay out; whoever reads the index later will ask.")
@click.option("--who", help="Who decides. Default: the name of this user.")
@click.pass_context
def accept_command(ctx: click.Context, run: str, clip: str, reason: str, who: str | None) -> None:
    """Accept a fault of the source: the clip gets a row with drop_reason "source_error", and READY no longer waits for it.

    CLIP is the clip's name as faults are listed, or `*` for what is wrong with the run as a whole.
    """
    from gc25d_core.errors import SettingsError
    from gc25d_core.faults import accept_fault
    from gc25d_core.rows import index_run

    given = given_options(ctx)
    settings = show_settings(given)
    try:
        decision = accept_fault(settings, run, clip, reason=reason, who=who or _user())
    except ValueError as error:
        raise SettingsError([str(error)]) from error
    report = index_run(settings, run)
    click.echo(f"accepted  {run} {clip}: {decision.reason} ({decision.who}, {decision.when})")
    click.echo(f"rows      {report.rows} finished, {report.accepted} accepted, {report.faults} clips with open faults")
    click.echo(f"next      gc25d build{flags_of(given)} (index, verification, READY)")


def _user() -> str:
    """Name of this process's user; containers often run under a number without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
