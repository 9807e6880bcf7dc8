"""`gc25d verify`: every check of the verification as a table, `verify_report.json`, and READY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gc25d_assets.cli.options import given_options, settings_options, show_settings

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

_MOST_WORST = 5


@click.command("verify")
@settings_options
@click.option("--spot", metavar="N", type=click.IntRange(min=0), help="Clips of the deep checks. Default: 4.")
@click.pass_context
def verify_command(ctx: click.Context, spot: int | None) -> None:
    """Verify the data set; write READY if nothing fails.

    Looks at every file of every clip, at some clips again from their source, and encodes some anew. --workers is the
    number of processes. Exit code 1 on a failure.
    """
    settings = show_settings(given_options(ctx))
    passed = verify_and_print(settings if spot is None else replace(settings, spot_clips=spot))
    ctx.exit(0 if passed else 1)


def verify_and_print(settings: Settings) -> bool:
    """Verifies, prints, and says whether nothing failed."""
    from gc25d_core.verify import verify

    said: set[str] = set()

    def say(what: str, done: int, total: int) -> None:
        if total and what not in said:
            said.add(what)
            click.echo(f"verifying {what}: {total}", err=True)

    report = verify(settings, progress=say)
    print_report(settings, report.to_json())
    return report.passed


def print_report(settings: Settings, report: Mapping[str, Any]) -> None:
    """The checks as a table, what failed in full, and why there is no READY."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = f"verification of {report['clips']} clips, {report['runs']} runs"
    table = Table("check", "", "clips", "found", title=title, box=box.SIMPLE)
    for check in report["checks"]:
        table.add_row(check["name"], _mark(check), str(check["clips_checked"]), escape(_found(check)))
    Console().print(table)
    for check in report["checks"]:
        if not check["passed"]:
            click.echo(f"{check['name']}: {check['findings']} findings; asked for: {check['threshold']}", err=True)
            for finding in check["worst"][:_MOST_WORST]:
                where = " ".join(f"{k} {finding[k]}" for k in ("run", "clip", "frame") if k in finding)
                click.echo(f"  {where}{': ' if where else ''}{finding['what']}", err=True)
    click.echo(
        f"report    {settings.paths.verify_report}: {report['failures']} failures, {report['warnings']} warnings"
    )
    if report["ready"]:
        click.echo(f"READY     {settings.paths.ready}")
    else:
        click.echo("READY     not written: " + "; ".join(report["not_ready_because"]))


def _found(check: Mapping[str, Any]) -> str:
    """In a cell; the findings themselves follow below the table."""
    return str(check["message"]) if check["passed"] else f"{check['findings']} findings, see below"


def _mark(check: Mapping[str, Any]) -> str:
    if not check["applicable"]:
        return "[dim]n/a[/dim]"
    if check["passed"]:
        return "[green]ok[/green]"
    return "[red]FAIL[/red]" if check["severity"] == "error" else "[yellow]warn[/yellow]"
